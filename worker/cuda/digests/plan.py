"""How a matrix's bytes on a GPU are walked to digest them. Needs no device."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from worker.cuda.pitch import Layout

PART_BYTES = 16384  # as in cuda/digest.cu: the last part goes on to the end
MIN_DIGESTED_BYTES = 241  # shorter inputs have other hashes
WARPS, THREADS = 4, 128  # of a block; a warp has a part
ALIGNMENT_BYTES = 16


class DigestPlan(NamedTuple):
    """Numbers are the function's: row bytes, pitch, rows, bytes between matrices, matrices, parts. `arguments`: they as
    it takes them."""

    function: str
    blocks: int
    numbers: tuple[int, int, int, int, int, int]
    parts: int
    arguments: tuple[np.int64, ...]


def stored_bytes(layout: Layout) -> int:
    """Of the matrix as it is stored, without padding."""
    return layout.batch * layout.rows * layout.row_bytes


def digest_plan(layout: Layout, address: int) -> DigestPlan:
    """For at least MIN_DIGESTED_BYTES. Rows that follow on each other without padding are taken for one."""
    return _digest_plan(layout, address % ALIGNMENT_BYTES)


@lru_cache(maxsize=256)
def _digest_plan(layout: Layout, address: int) -> DigestPlan:
    size = stored_bytes(layout)
    row_bytes, pitch, rows, batch = layout.row_bytes, layout.pitch_bytes, layout.rows, layout.batch
    stride = pitch * layout.kept_rows if batch > 1 else 0
    if batch > 1 and layout.kept_rows == rows:
        rows, batch, stride = rows * batch, 1, 0
    if pitch == row_bytes:
        row_bytes, rows = row_bytes * rows, 1
        pitch = row_bytes
    places = address | row_bytes | (pitch if rows > 1 else 0) | stride
    parts = max(1, size // PART_BYTES)
    function = "digest_aligned" if places % ALIGNMENT_BYTES == 0 else "digest_any"
    numbers = row_bytes, pitch, rows, stride, batch, parts
    return DigestPlan(function, -(-parts // WARPS), numbers, parts, tuple(map(np.int64, numbers)))
