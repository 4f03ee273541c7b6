"""A digest of the catalogue, which changes with anything that a kernel's speed may depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
PARTS = ("catalog.py", "entries/**/*.py", "model/**/*.py", "cuda/**/*.cu", "cuda/**/*.cuh")


@cache
def kernels_digest() -> str:
    """The digest of entries, launch arithmetic and CUDA C++."""
    return files_digest(ROOT, PARTS)


def files_digest(root: Path, patterns: Iterable[str]) -> str:
    """The digest of the names and contents of files below `root`."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
        contents = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(contents)}\n".encode() + contents)
    return digest.hexdigest()
