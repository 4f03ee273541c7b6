"""What of `tensor_fp64` no small product shows: the order of many tiles, warps without a part of the product, and
what resident blocks share out among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.emulation.launches import execute
from tests.emulation.products import Case, numbers, product, run_of
from tests.emulation.programs import Emulator
from tests.emulation.variants import TRANSPOSES, Variant, variants_of
from tests.support.kernels.products import assert_right

KERNEL = BY_NAME["tensor_fp64"]
# In tiles of 64 × 64: two groups of eight rows of tiles and one of the rest; a single column of tiles; thin last tiles.
SHAPES = ((17 * 64 + 1, 3 * 64 + 1, 9), (9 * 64 + 33, 40, 17), (40, 5 * 64 + 33, 16))


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_every_tile_is_multiplied(transposes: tuple[bool, bool], emulator: Emulator) -> None:
    assert isinstance(KERNEL, CudaKernel)
    smallest = next(v for v in variants_of(KERNEL) if v.config["block_m"] == v.config["block_n"] == 64)
    variant: Variant = replace(smallest, transposes=transposes)
    cases = [Case(replace(variant.kind, m=m, n=n, k=k), ("odd",) * 3) for m, n, k in SHAPES]
    runs = [run_of(KERNEL, variant.config, case, order) for order, case in enumerate(cases)]
    for case, (found,) in zip(cases, execute(emulator.compile(variant.program, variant.name), runs), strict=True):
        np.testing.assert_array_equal(found, product(case.problem, case.data), str(case))


def variant_of(transposes: tuple[bool, bool], stages: int) -> Variant:
    config = KERNEL.resolve_config({"stages": stages, "edge": 0, "resident": 1})
    return Variant(KERNEL.name, tuple(config.items()), "float64", transposes)


def shared_out(kind: Problem) -> list[Case]:
    """A turn and a half, cut among two blocks a tile; tiles cut among four; a tile each and none
    for others; matrices one after the other; no k."""
    return [
        Case(replace(kind, m=130, n=260, k=325), ("odd",) * 3, multiprocessors=4),
        Case(replace(kind, m=256, n=130, k=1024), ("aligned",) * 3, multiprocessors=14),
        Case(replace(kind, m=128, n=128, k=100), ("aligned", "odd", "odd"), multiprocessors=3),
        Case(replace(kind, m=20, n=130, k=150, batch=5, a_batched=True), ("odd",) * 3, multiprocessors=4),
        Case(replace(kind, m=5, n=6, k=0), ("odd",) * 3),
    ]


@pytest.mark.parametrize(("stages", "transposes"), [(3, TRANSPOSES[1]), (4, TRANSPOSES[2])])
def test_blocks_that_stay(stages: int, transposes: tuple[bool, bool], emulator: Emulator) -> None:
    assert isinstance(KERNEL, CudaKernel)
    variant = variant_of(transposes, stages)
    cases = shared_out(variant.kind)
    runs = [run_of(KERNEL, variant.config, case, order) for order, case in enumerate(cases)]
    for case, (found,) in zip(cases, execute(emulator.compile(variant.program, variant.name), runs), strict=True):
        np.testing.assert_array_equal(found, product(case.problem, case.data), str(case))


def test_the_order_of_blocks_changes_no_bit(emulator: Emulator) -> None:
    """Two tiles for seven blocks: each is cut among four, of whom one has a segment of both."""
    assert isinstance(KERNEL, CudaKernel)
    variant = variant_of((False, False), 3)
    case = Case(replace(variant.kind, m=150, n=90, k=970), ("aligned",) * 3, "normal", multiprocessors=7)
    runs = [run_of(KERNEL, variant.config, case, order) for order in range(3)]
    (first,), *others = execute(emulator.compile(variant.program, variant.name), runs)
    assert_right(case.problem, *numbers(case.problem, "normal"), first[0])
    for (other,) in others:
        np.testing.assert_array_equal(other, first)
