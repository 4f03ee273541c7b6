"""`matmul up` and `matmul keys`: they manage the service itself, so they need its checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import click

MARKS = ("Makefile", "service/local/__init__.py")


def checkout() -> Path:
    """The checkout that the current directory is in. Raises UsageError."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if all((folder / mark).exists() for mark in MARKS):
            return folder
    raise click.UsageError("This command needs the service's checkout; change into one, or use the container images.")


@click.command(epilog="\b\nExample:\n  cd matmul-service && matmul up")
def up() -> None:
    """Run a service here until Ctrl-C, as `make run`."""
    _become("make", "run", folder=checkout())


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    epilog="\b\nExample:\n  matmul keys new --name alice --add",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def keys(arguments: tuple[str, ...]) -> None:
    """Create, list and revoke a service's API keys.

    For a service that runs from the checkout that contains the current directory.
    """
    folder = checkout()
    python = folder / ".venv" / "bin" / "python"
    if not python.exists():
        raise click.UsageError(f"{folder} has no .venv yet; `matmul up` makes it.")
    _become(str(python), "-m", "service.keys", *arguments, folder=folder)


def _become(*command: str, folder: Path) -> NoReturn:
    """Replaces this process, so that Ctrl-C and the exit status are those of the new one."""
    os.chdir(folder)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise click.UsageError(f"{command[0]} cannot be started: {error.strerror}.") from None
