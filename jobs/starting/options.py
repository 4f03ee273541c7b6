"""Common command-line options of the service's programs, and their error message if they cannot start."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jobs.starting.settings_text import by_group, variable

CANNOT_START = 1  # exit status; 2 is argparse's, for a wrong option
EPILOG = """\
settings:
  Environment variables, MATMUL_*; --settings lists them by group. docs/operations.md has the same list.

exit status:
  0  stopped by a signal, or --help or --settings
  1  it cannot start; a sentence on stderr says why
  2  a wrong option
"""


class _PrintSettings(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        print(by_group())
        parser.exit()


def make_parser(program: str, description: str, examples: str = "") -> argparse.ArgumentParser:
    """An argument parser with `--settings` in addition to `--help`. `examples`: lines for the end of the help."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        epilog=f"examples:\n{examples}\n{EPILOG}" if examples else EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--settings", action=_PrintSettings, nargs=0, help="list all settings by group, and exit")
    return parser


def add_settings(parser: argparse.ArgumentParser, options: Mapping[str, str]) -> None:
    """Adds options that override settings: name of the setting → help text."""
    for name, words in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", help=f"{words}; in place of {variable(name)}")


def apply_settings(chosen: argparse.Namespace, names: Sequence[str] | Mapping[str, str]) -> None:
    """Puts the chosen options into the environment, which child processes inherit."""
    for name in names:
        if (value := getattr(chosen, name)) is not None:
            os.environ[variable(name)] = value


def cannot_start(program: str, why: object) -> NoReturn:
    """Ends the process with one sentence on stderr."""
    if isinstance(why, OSError) and why.filename is not None:
        why = f"{why.filename} cannot be opened ({why.strerror})."
    print(f"{program} cannot start: {why}", file=sys.stderr)
    sys.exit(CANNOT_START)
