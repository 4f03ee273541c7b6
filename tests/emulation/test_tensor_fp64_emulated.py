"""What of `tensor_fp64` no small product shows: the order of many tiles, and warps without a part of the product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.kernel import CudaKernel
from tests.emulation.launches import execute
from tests.emulation.products import Case, product, run_of
from tests.emulation.programs import Emulator
from tests.emulation.variants import TRANSPOSES, Variant, variants_of

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
