"""The command `matmul`. Each subcommand imports what it needs when it runs, so that help and completion are fast."""
