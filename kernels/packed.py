"""Reads and writes the package's text files, of which the large ones are compressed with gzip."""

from __future__ import annotations

import gzip
from pathlib import Path

SUFFIX = ".gz"


def read_text(path: Path) -> str:
    """The text of a compressed or plain file, depending on its name. Raises OSError."""
    return (gzip.decompress(path.read_bytes()) if path.suffix == SUFFIX else path.read_bytes()).decode()


def has_text(path: Path, text: str) -> bool:
    """Whether there is such a file, with that text."""
    return path.exists() and read_text(path) == text


def write_text(path: Path, text: str) -> None:
    """Writes a text file; the same text always gives the same bytes."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == SUFFIX else text.encode())
