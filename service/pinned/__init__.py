"""Results that are kept until their owner says otherwise, and files of results from one service to another."""
