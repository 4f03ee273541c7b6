"""Text files of the package that are packed by gzip, where there is much of it and nobody reads it as it lies."""

from __future__ import annotations

import gzip
from pathlib import Path

SUFFIX = ".gz"


def read_text(path: Path) -> str:
    """Of a packed file or of a plain one, by its name. Raises OSError."""
    return (gzip.decompress(path.read_bytes()) if path.suffix == SUFFIX else path.read_bytes()).decode()


def write_text(path: Path, text: str) -> None:
    """The same text is the same bytes, whenever it is written."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == SUFFIX else text.encode())
