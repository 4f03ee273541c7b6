"""Where the command begins: its groups, and what its exit status says."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `matmul`."""
    try:
        import click  # noqa: F401
    except ImportError:
        sys.exit("The command needs click and rich: pip install 'matmul-client[cli]'.")
    from matmul_client.cli.commands import matmul

    matmul(prog_name="matmul")
