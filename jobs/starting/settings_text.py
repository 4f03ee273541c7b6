"""Formats the settings for readers: by group, with defaults, as `--settings` and docs/operations.md list them."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from jobs.settings import GIB, KIB, MIB, Settings

WIDTH = 100  # characters of a line
GROUPS = {  # by the first setting of each
    "host": "the API",
    "redis_url": "Redis",
    "max_attempts": "a job's life",
    "store": "matrices",
    "device": "workers",
    "log_format": "logs",
    "state_dir": "make run and the site",
    "store_copies_bytes": "the object store",
    "cell": "cells",
}


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"MATMUL_{name.upper()}"


def default_of(name: str, value: Any) -> str:
    """The default as a reader would set it; machine-dependent directories are shown symbolically. Empty if there is no
    default.
    """
    if value is None or value == ():
        return ""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Path):
        return str(value).replace(tempfile.gettempdir(), "/tmp").replace(str(Path.home()), "~")  # noqa: S108
    if name == "unix_socket_mode":
        return f"{value:o}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def size_of(value: int) -> str:
    """A number of bytes in the largest unit that it fills."""
    unit, word = next(
        ((unit, word) for unit, word in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")) if value >= unit), (1, "B")
    )
    return f"{value / unit:g} {word}"


def choices_of(annotation: Any) -> str:
    """A sentence with the values that may be set; empty where there is no list of them."""
    allowed = get_args(annotation) if get_origin(annotation) is Literal else ()
    return f" One of {', '.join(f'`{value}`' for value in allowed)}." if allowed else ""


def grouped() -> dict[str, dict[str, FieldInfo]]:
    """The settings' fields by name, by group, in the order of GROUPS."""
    groups: dict[str, dict[str, FieldInfo]] = {title: {} for title in GROUPS.values()}
    title = ""
    for name, field in Settings.model_fields.items():
        title = GROUPS.get(name, title)
        groups[title][name] = field
    return groups


def by_group() -> str:
    """Every setting, as text for a terminal."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "Settings are environment variables, read once at start."
    for title, fields in grouped().items():
        yield f"\n{title}:"
        for name, field in fields.items():
            default = default_of(name, field.default)
            size = f"  ({size_of(field.default)})" if name.endswith("_bytes") and field.default else ""
            yield f"  {variable(name)}={default}{size}"
            text = f"{field.description}{choices_of(field.annotation)}".replace("`", "")
            yield textwrap.fill(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
