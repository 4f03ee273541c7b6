"""Symmetric products: when one triangle is computed, how it is launched, and when `auto` takes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.catalog import CATALOG
from kernels.model.architectures import H200
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from kernels.model.triangle import triangle_flops, triangle_tiles, whole
from kernels.selection.choose import choose
from kernels.selection.triangles import computes_triangle
from kernels.selection.tuned import TABLES, TunedTable
from kernels.tiles.plan import Span, Tile
from tests.support.kernels.catalogue import cuda_kernel
from worker.cuda.programs import programs_of
from worker.cuda.sources import kernel_program
from worker.product.shapes import AskedShape, shape_named

KERNELS: list[tuple[str, DTypeName, AccuracyName]] = [
    ("hopper_bf16", "bfloat16", "bf16"),
    ("hopper_fp16", "float16", "tf32"),
    ("hopper_tf32", "float32", "tf32"),
    ("hopper_int8", "int8", "exact"),
    ("hopper_fp32", "float32", "fp32"),
    ("tensor_fp64", "float64", "fp64"),
]
EACH = pytest.mark.parametrize(("name", "dtype", "accuracy"), KERNELS)


def symmetric(n: int, k: int, dtype: DTypeName, *, by_columns: bool = False) -> Problem:
    return Problem(n, n, k, dtype, transpose_a=by_columns, transpose_b=not by_columns, symmetric=True)


@EACH
@pytest.mark.parametrize("by_columns", [False, True])
def test_half_of_the_tiles_of_a_large_product(
    name: str, dtype: DTypeName, accuracy: AccuracyName, by_columns: bool
) -> None:
    kernel, problem = cuda_kernel(name), symmetric(4097, 4096, dtype, by_columns=by_columns)
    config = kernel.resolve_config(NO_CONFIG, problem, H200.traits)
    plan, usual = kernel.plan(problem, config), kernel.plan(whole(problem), config)
    assert plan.mirrored is not None and usual.mirrored is None
    assert plan.inner == plan.problem == problem  # no edge: its tiles would be mirrored too
    assert plan.main.grid[0] <= 0.6 * usual.main.grid[0]
    assert plan.mirrored.launch.grid[0] == 65 * 66 // 2
    turned = by_columns and name in ("hopper_tf32", "hopper_int8")  # these compute Cᵀ of an MN-major B
    assert plan.mirrored.from_lower is not turned
    assert "-DTRIANGLE" in kernel_program(kernel, config, problem).options
    assert "mirror.cu" in {each.path.name for each in programs_of(kernel, config, problem, H200.traits)}


@EACH
def test_small_products_are_computed_whole(name: str, dtype: DTypeName, accuracy: AccuracyName) -> None:
    """To the last option of their program: a mirror would take longer than what it spares."""
    kernel, problem = cuda_kernel(name), symmetric(200, 200, dtype)
    config = kernel.resolve_config(NO_CONFIG, problem, H200.traits)
    assert kernel.plan(problem, config) == kernel.plan(whole(problem), config)
    assert not computes_triangle(kernel, config, problem)
    assert kernel_program(kernel, config, problem) == kernel_program(kernel, config, whole(problem))


@pytest.mark.parametrize("kernel", [k for k in CATALOG if isinstance(k, CudaKernel)], ids=lambda k: k.name)
def test_all_other_kernels_compute_all_of_it(kernel: CudaKernel) -> None:
    problem = symmetric(4096, 4096, kernel.dtypes[0])
    config = kernel.resolve_config(NO_CONFIG, problem, H200.traits)
    assert computes_triangle(kernel, config, problem) == (kernel.name in {name for name, *_ in KERNELS})
    if kernel.triangle is None:
        assert config == kernel.resolve_config(NO_CONFIG, whole(problem), H200.traits)
        assert kernel.plan(problem, config) == kernel.plan(whole(problem), config)


def test_tiles_and_operations_are_counted() -> None:
    problem = symmetric(4096, 64, "float32")
    assert triangle_tiles(problem, 128, 128) == 32 * 33 // 2
    assert triangle_tiles(problem, 256, 128) == sum(range(2, 33, 2))
    assert triangle_tiles(problem, 128, 256) == 2 * sum(range(1, 17))
    assert triangle_flops(problem) == 4096 * 4097 * 64


def test_a_tile_of_an_out_of_core_product_is_not_symmetric() -> None:
    tile = Tile(0, 0, Span(0, 1), Span(0, 100), Span(100, 200))
    assert not tile.problem(symmetric(200, 50, "float32")).symmetric


@EACH
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.device)
def test_auto_takes_it_where_half_of_the_tiles_gain(
    table: TunedTable, name: str, dtype: DTypeName, accuracy: AccuracyName
) -> None:
    for n in (4096, 8192):
        choice = choose("auto", NO_CONFIG, symmetric(n, n, dtype), accuracy, table.traits)
        assert choice.kernel.name == name and computes_triangle(choice.kernel, choice.config, symmetric(n, n, dtype))
        assert "should be the fastest" in choice.why
    small = choose("auto", NO_CONFIG, symmetric(128, 128, dtype), accuracy, table.traits)
    assert small.kernel.name.startswith("cublas")


def test_it_is_a_shape_of_its_own() -> None:
    """Nothing that was measured of whole products is taken for it, and nobody measures it in their place."""
    problem = symmetric(512, 512, "float32")
    asked = AskedShape(problem, "fp32")
    assert asked.name != AskedShape(replace(problem, symmetric=False), "fp32").name
    assert shape_named(asked.name) is None
