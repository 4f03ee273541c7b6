"""What both clients share: requests built and replies read, without any input or output of its own."""
