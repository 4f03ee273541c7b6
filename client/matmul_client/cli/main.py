"""The entry point of the command: its groups, and its exit statuses."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `matmul`."""
    try:
        import click  # noqa: F401
    except ImportError:
        sys.exit("The command needs two more packages: pip install click rich.")
    from matmul_client.cli.commands import matmul

    matmul(prog_name="matmul")
