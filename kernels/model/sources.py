"""Where the kernels' CUDA sources are.

Folders are for readers. No two files in them have the same name, so an `#include` names the file alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

SOURCE_DIR = Path(__file__).parent.parent / "cuda"


@cache
def source_files() -> dict[str, Path]:
    """Kernels and headers, by file name."""
    return {path.name: path for pattern in ("*.cu", "*.cuh") for path in sorted(SOURCE_DIR.rglob(pattern))}


@cache
def include_options() -> tuple[str, ...]:
    """The compiler options for finding every header."""
    return tuple(f"-I{folder}" for folder in sorted({path.parent for path in source_files().values()}))
