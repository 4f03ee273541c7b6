"""Which rows and columns of a product are left to a separate edge function, and when that is worthwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.catalog import BY_NAME
from kernels.model.edge import MAX_EDGE, core, edge_clocks, edge_launch, is_small
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from tests.support.kernels.catalogue import cuda_kernel

TILE = (128, 256)
H200 = DeviceTraits("gpu", (9, 0), 232_448, 132)
WITH_EDGE = [kernel for kernel in BY_NAME.values() if any(p.name == "edge" for p in kernel.parameters)]


@given(st.integers(1, 2000), st.integers(1, 2000), st.sampled_from([0, MAX_EDGE]))
def test_the_kernel_keeps_whole_tiles_or_everything(m: int, n: int, most: int) -> None:
    problem = Problem(m, n, 64, "float32")
    inner = core(problem, {"edge": most}, TILE)
    assert replace(inner, m=m, n=n) == problem
    for left, extent, tile in ((inner.m, m, TILE[0]), (inner.n, n, TILE[1])):
        assert 0 < left <= extent <= left + most
        assert left in (extent, extent // tile * tile)
    assert (inner.m < m) == (most > 0 and m > TILE[0] and 0 < m % TILE[0] <= most)


def test_blocks_cover_what_is_left() -> None:
    """Strips of 64 bytes, or 32 rows along k; of the columns those above the last rows alone. Narrow ones have half
    and a quarter of these."""
    problem = Problem(4097, 4098, 100, "float32", transpose_a=True)
    inner = core(problem, {"edge": MAX_EDGE}, TILE)
    assert (inner.m, inner.n) == (4096, 4096)
    assert edge_launch(problem, inner, narrow=False).grid == (257 + 256, 1, 1)
    assert edge_launch(problem, replace(inner, m=4097), narrow=False).grid == (257, 1, 1)
    assert edge_launch(problem, inner, narrow=True).grid == (513 + 512, 1, 1)
    transposed = replace(problem, dtype="float64", transpose_a=False, transpose_b=True, batch=70_000)
    assert edge_launch(transposed, inner, narrow=False).grid == (129 + 128, 1, 65_535)
    assert edge_launch(transposed, inner, narrow=True).grid == (513 + 512, 1, 65_535)


@pytest.mark.parametrize(("n", "batch", "small"), [(1025, 1, True), (1025, 4, False), (4097, 1, False)])
def test_blocks_of_a_small_product_are_narrow(n: int, batch: int, small: bool) -> None:
    problem = Problem(n, n, n, "float32", batch)
    assert is_small(problem, core(problem, {"edge": MAX_EDGE}, TILE)) == small


def test_what_it_costs_follows_what_it_reads() -> None:
    thin, config = Problem(4097, 4096, 4096, "float32"), {"edge": MAX_EDGE}
    assert edge_clocks(replace(thin, m=4096), config, TILE) == 0.0
    assert edge_clocks(thin, {"edge": 0}, TILE) == 0.0
    assert 0 < edge_clocks(thin, config, TILE) < edge_clocks(replace(thin, n=4097), config, TILE)


@pytest.mark.parametrize("kernel", WITH_EDGE, ids=lambda kernel: kernel.name)
def test_an_edge_row_is_computed_separately_if_that_saves_a_wave(kernel: CudaKernel) -> None:
    """2,049 is one wave of some tile of `hopper_tf32`, edge and all."""
    whole = 5376 if kernel.name == "hopper_tf32" else 2048
    problem = Problem(whole + 1, whole + 1, whole + 1, kernel.dtypes[0])
    config = kernel.resolve_config(problem=problem, device=H200)
    assert config["edge"] == MAX_EDGE
    assert whole_of(kernel, problem, config) == (whole, whole)
    assert kernel.plan(problem, config).main == kernel.plan(replace(problem, m=whole, n=whole), config).main


def whole_of(kernel: CudaKernel, problem: Problem, config: TileConfig) -> tuple[int, int]:
    """Rows and columns without edge, whether the kernel itself multiplies that or a function apart does."""
    plan = kernel.plan(problem, config)
    thin, inner = plan.boxes.thin if plan.boxes is not None else None, plan.inner
    return (inner.m, inner.n) if thin is None else (thin.row, thin.column)


def test_tiles_are_as_large_as_fills_the_waves() -> None:
    """By arithmetic alone: 2,049 takes one wave of 192 rows and columns, two of any with 128 rows; 5,120 takes seven
    of 128 rows whether columns are 224 or 256."""
    kernel = cuda_kernel("hopper_bf16")
    taken = {
        n: kernel.resolve_config(problem=Problem(n, n, n, "bfloat16"), device=H200)
        for n in (1024, 2048, 2049, 3072, 4096, 4097, 5120, 8192)
    }
    sizes = {n: (config["block_m"], config["block_n"]) for n, config in taken.items()}
    wide, square = (128, 256), (192, 192)
    assert sizes == {
        1024: (128, 64),
        2048: wide,
        2049: square,
        3072: square,
        4096: wide,
        4097: (192, 176),
        5120: (128, 224),
        8192: wide,
    }
    assert kernel.resolve_config({"block_n": 128}, Problem(4096, 4096, 64, "bfloat16"), H200)["block_n"] == 128


@pytest.mark.parametrize(
    ("name", "dtype", "beyond"), [("hopper_int8", "int8", (128, 192)), ("hopper_tf32", "float32", (192, 176))]
)
def test_words_and_bytes_have_other_sizes_too(name: str, dtype: DTypeName, beyond: tuple[int, int]) -> None:
    kernel, squares = cuda_kernel(name), (2049, 4096, 4097, 5120, 8192, 8193)
    taken = {n: kernel.resolve_config(problem=Problem(n, n, n, dtype), device=H200) for n in squares}
    sizes = {n: (config["block_m"], config["block_n"]) for n, config in taken.items()}
    wide = (128, 256)
    assert sizes == {2049: (192, 192), 4096: wide, 4097: (192, 176), 5120: (128, 224), 8192: wide, 8193: beyond}


def test_no_separate_edge_function_if_the_wave_has_room() -> None:
    """At 1,025 most multiprocessors have nothing to do: they take the thin tiles."""
    config = cuda_kernel("hopper_tf32").resolve_config(problem=Problem(1025, 1025, 1025, "float32"), device=H200)
    assert config["edge"] == 0
