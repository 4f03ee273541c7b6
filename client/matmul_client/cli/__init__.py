"""The command `matmul`. Each of its commands loads what it needs when it runs, so that help and completion are fast."""
