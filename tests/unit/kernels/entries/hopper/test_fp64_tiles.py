"""The tile size that `hopper_fp64` takes: the one measured fastest, and none that leaves a last wave empty."""

from __future__ import annotations

import pytest

from kernels.catalog import BY_NAME
from kernels.entries.hopper.fp64 import ROWS
from kernels.model.architectures import H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import Problem

KERNEL = BY_NAME["hopper_fp64"]


@pytest.mark.parametrize(
    ("n", "rows"), [(1536, 144), (2048, 128), (2560, 80), (3000, 80), (4096, 112), (6144, 80), (8192, 80)]
)
def test_squares_take_the_size_that_was_fastest_on_an_h100(n: int, rows: int) -> None:
    """Of all six, as docs/notes/tensor_fp64.md has them."""
    assert KERNEL.resolve_config(NO_CONFIG, Problem(n, n, n, "float64"), H200.traits)["block_m"] == rows


@pytest.mark.parametrize("rows", ROWS)
def test_a_full_wave_of_any_size_takes_that_size(rows: int) -> None:
    """A deep product, whose tiles of this size are one for each multiprocessor."""
    config = KERNEL.resolve_config(NO_CONFIG, Problem(rows * 12, 128 * 11, 4096, "float64"), H200.traits)
    assert config["block_m"] == rows
