"""What both clients share: building requests and reading replies, without any I/O."""
