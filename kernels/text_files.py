"""Reads and writes the package's text files, of which the large ones are compressed: with gzip, or with xz where a file
is read seldom, because xz takes longer to unpack what it packs smaller.
"""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

GZIP, XZ = ".gz", ".xz"


def read_text(path: Path) -> str:
    """The text of a compressed or plain file, depending on its name. Raises OSError, and LZMAError for a broken xz."""
    content = path.read_bytes()
    if path.suffix == GZIP:
        content = gzip.decompress(content)
    elif path.suffix == XZ:
        content = lzma.decompress(content)
    return content.decode()


def has_text(path: Path, text: str) -> bool:
    """Whether there is such a file, with that text."""
    return path.exists() and read_text(path) == text


def write_text(path: Path, text: str) -> None:
    """Writes a text file, which is complete at any moment; the same text always gives the same bytes."""
    content = text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, mtime=0)
    elif path.suffix == XZ:
        content = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
