"""The entry point of the command: its groups, and its exit statuses."""

from __future__ import annotations

import sys
from io import TextIOWrapper

INTERRUPTED = 130  # as `settings` has it, which is not loaded yet


def main() -> None:
    """Entry point of `matmul`."""
    try:
        _run()
    except KeyboardInterrupt:  # while modules were loaded, before the command began
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        import click  # noqa: F401
    except ImportError:
        sys.exit("The command needs two more packages: pip install click rich.")
    from matmul_client.cli.commands import matmul

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and (stream.errors == "strict" or stream.encoding.lower() != "utf-8"):
            stream.reconfigure(errors="replace")  # not every encoding has × or █
    matmul(prog_name="matmul")
