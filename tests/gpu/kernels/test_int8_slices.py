"""`fp32_emulated` on a real Hopper GPU: as right as cuBLAS's float32 on every kind of data, also where digits end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks import operand_kinds
from benchmarks.measure.element_errors import relative_error
from benchmarks.operand_kinds import FAR, square
from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.launch_plan import Launch, Workspace
from kernels.model.numerics import Problem
from tests.gpu.kernels.hopper.launching import check_launches_at_once, computed, drawn, prepared
from tests.gpu.products import multiply
from tests.support.kernels.adversarial import ADVERSARIAL, DOMINANT, IN_FLOAT32, Make, worst_errors, worst_of_class
from tests.support.kernels.emulated import Way, product
from tests.support.kernels.emulated_judge import judge
from tests.support.kernels.products import assert_right, in_float64, operands

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAME = "fp32_emulated"
LEFT_TO_FLOAT32 = ("12 binades in a row", "40 binades in a row", FAR)
# Of clusters one is enough: they change how digits are brought, and nothing else.
CONFIGS = [one for one in BY_NAME[NAME].configs() if one["cluster"] == 1 or one["min_products"] == 6]
EACH_CONFIG = pytest.mark.parametrize("config", CONFIGS, ids=str)
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
# On which it has been no further off than cuBLAS as a whole; docs/accuracy.md has all kinds.
KINDS = ("normal", "uniform(0, 1)", "12 binades in a row", "40 binades in a row", "cancelling halves", FAR)
# Tiles of 128 × 128 × 64, pairs of them, and parts.
SHAPES = [
    (128, 128, 64),
    (256, 384, 192),
    (64, 64, 64),
    (65, 67, 69),
    (129, 257, 65),
    (300, 301, 1000),
    (513, 100, 2048),
]
# Few tiles and a deep k: cut into many parts and into two, of odd lengths.
CUT_SHAPES = [(860, 220, 9874), (65, 64, 2049), (210, 2936, 4316), (500, 129, 32_512)]
WAYS: dict[int, Way] = {6: "six", 7: "seven", 8: "eight", 10: "ten"}


# Short k takes ten products whatever is asked for, so that all of `min_products` would be compiled for nothing.
@pytest.mark.parametrize("config", [one for one in CONFIGS if one["min_products"] == 6], ids=str)
def test_shapes_and_transpositions(runner: CudaRunner, config: TileConfig, rng: np.random.Generator) -> None:
    for m, n, k in SHAPES:
        for transposes in TRANSPOSES:
            problem = Problem(m, n, k, "float32", 1, *transposes)
            a, b = operands(problem, rng)
            c, check, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
            assert_right(problem, a, b, c)
            assert check.passed, (problem, check)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2048, 4096])
def test_no_further_off_than_cublas(runner: CudaRunner, kind: str, size: int, rng: np.random.Generator) -> None:
    problem = Problem(size, size, size, "float32")
    a, b = square(kind, size, rng)
    true = a.astype(np.float64) @ b
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    # Products left to float32 are summed as cuBLAS does, in another order.
    assert relative_error(ours, true) <= relative_error(library, true) * (1.05 if kind in LEFT_TO_FLOAT32 else 1.0)


@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("size", [2048, 4096])
def test_every_row_column_and_element(runner: CudaRunner, kind: str, size: int, rng: np.random.Generator) -> None:
    """The worst row and the worst column are off by at most twice what the library's own worst are, and every element
    is within its class."""
    problem = Problem(size, size, size, "float32")
    a, b = ADVERSARIAL[kind](size, rng)
    true = a.astype(np.float64) @ b.astype(np.float64)
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng)
    assert check.passed
    assert worst_of_class(a, b, ours, true) <= 1.0
    of = np.abs(a).astype(np.float64) @ np.abs(b) if kind == DOMINANT else true
    for own, granted in zip(worst_errors(ours, true, of), worst_errors(library, true, of), strict=True):
        assert own <= 2 * granted


@pytest.mark.parametrize("kind", IN_FLOAT32)
@pytest.mark.parametrize("transposes", TRANSPOSES, ids=str)
def test_what_digits_do_not_carry_is_hopper_fp32_s_to_the_last_bit(
    runner: CudaRunner, kind: str, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    """However operands lie."""
    size = 1030
    problem = Problem(size, size, size, "float32", 1, *transposes)
    pair = zip(IN_FLOAT32[kind](size, rng), transposes, strict=True)
    a, b = (np.ascontiguousarray(x.T if transposed else x) for x, transposed in pair)
    config = BY_NAME["hopper_fp32"].resolve_config({}, problem, runner.device.traits)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng)
    plain, _, _ = multiply(runner, "hopper_fp32", problem, a, b, rng, config=config)
    assert check.passed
    np.testing.assert_array_equal(ours, plain)


@pytest.mark.parametrize("make", [partial(square, "normal"), IN_FLOAT32["sparse"]], ids=["digits", "float32"])
def test_rows_that_begin_anywhere(runner: CudaRunner, make: Make, rng: np.random.Generator) -> None:
    """Rows of 1030 elements without a gap, at no multiples of 16 bytes: the float32 kernel's copies of them, and of the
    product, are held back with it."""
    from worker.cuda.launch import prepare
    from worker.cuda.memory import Staging, StopWatch, allocate, upload
    from worker.cuda.pitch import operand_layout, product_layout
    from worker.device.runner import gathered

    problem, pair = Problem(1030, 1030, 1030, "float32"), make(1030, rng)
    a, b = (allocate(operand_layout("float32", x.shape, dense=True)) for x in pair)
    c = allocate(product_layout(problem, dense=True))
    for elements, matrix in zip(pair, (a, b), strict=True):
        upload(elements, matrix)
    kernel = BY_NAME[NAME]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config()
    prepare(runner.compiler, kernel, config, problem).launch(a, b, c)
    found = np.frombuffer(gathered(Staging().download(c, StopWatch())), np.float32).reshape(1030, 1030)
    assert_right(problem, *pair, found)


@pytest.mark.parametrize("kind", ["a row 16 binades below an element that meets zeros", "few rows scaled along k"])
def test_digits_are_not_left_for_a_few_lines(runner: CudaRunner, kind: str, rng: np.random.Generator) -> None:
    """Elsewhere elements are those of the model, to the last bit."""
    a, b = ADVERSARIAL[kind](1536, rng)
    c, _, _ = multiply(runner, NAME, Problem(1536, 1536, 1536, "float32"), a, b, rng)
    judged = judge(a, b.T, along=(True, False))
    assert not judged.in_float32 and len(judged.rows) in (1, 3) and not len(judged.columns)
    tile = slice(128, 256)
    way = judged.ways[13]  # the second row of twelve tiles, and of these the second
    np.testing.assert_array_equal(c[tile, tile], product(a[tile], b[:, tile].T, way))


@pytest.mark.parametrize("kind", ["normal", "uniform(0, 1)", "cancelling halves"])
@pytest.mark.parametrize("size", [2049, 3073, 4097])
def test_eight_products_where_cublas_sums_k_in_parts(
    runner: CudaRunner, kind: str, size: int, rng: np.random.Generator
) -> None:
    """As it does at odd sizes: its error is about half of that of sums in the order of k. By every eighth row."""
    problem = Problem(size, size, size, "float32")
    a, b = square(kind, size, rng)
    true = a[::8].astype(np.float64) @ b.astype(np.float64)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"min_products": 8})
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert check.passed
    assert relative_error(ours[::8], true) <= relative_error(library[::8], true)


@pytest.mark.parametrize("shape", [(249, 131, 1041), (868, 166, 422), (246, 728, 3908), (2100, 2100, 100)], ids=str)
def test_ten_products_where_cublas_sums_many_parts_of_k_or_few_steps(
    runner: CudaRunner, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    problem = Problem(*shape, "float32")
    a, b = operands(problem, rng)
    true = in_float64(problem, a, b)[0]
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"min_products": 10})
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    assert check.passed
    assert relative_error(ours, true) <= relative_error(library, true)


@EACH_CONFIG
@pytest.mark.parametrize("shape", [(256, 640, 832), (256, 128, 4096)], ids=["whole", "cut"])
def test_the_fewest_products_to_the_last_bit(
    runner: CudaRunner, config: TileConfig, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    """What the model makes of the same numbers: sums of digits are exact, and there is one rounding."""
    problem = Problem(*shape, "float32")
    a, b = operands(problem, rng, "uniform")
    c, _, _ = multiply(runner, NAME, problem, a, b, rng, config=config)
    parts = parts_of(runner, problem, config)
    assert (parts > 1) is (shape[2] == 4096)
    np.testing.assert_array_equal(c, product(a, b.T, WAYS[config["min_products"]], parts))


def parts_of(runner: CudaRunner, problem: Problem, config: TileConfig) -> int:
    """Of a tile that is cut along k."""
    plan = emulated().plan(problem, config)
    return max(plan.main.on(runner.device.multiprocessors or 1)[0] // (config["cluster"] * plan.main.grid[0]), 1)


def emulated() -> CudaKernel:
    kernel = BY_NAME[NAME]
    assert isinstance(kernel, CudaKernel)
    return kernel


# ---- tiles that are cut along k ----
def never_cut(kernel: CudaKernel) -> CudaKernel:
    def arrange(problem: Problem, config: TileConfig) -> Launch:
        return replace(kernel.arrange(problem, config), parts=1)

    def room(problem: Problem, config: TileConfig) -> Workspace:
        assert kernel.workspace is not None
        found = kernel.workspace(problem, config)
        assert found is not None and found.macros == ("CUT",)
        return replace(found, macros=())

    return replace(kernel, arrange=arrange, workspace=room)


@EACH_CONFIG
@pytest.mark.parametrize("shape", CUT_SHAPES, ids=str)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_cut_tiles(
    runner: CudaRunner, config: TileConfig, shape: tuple[int, int, int], transpose_b: bool, rng: np.random.Generator
) -> None:
    """Off from whole ones by a place of the fourth sum for each part, which six products do not have; the same bits in
    each launch."""
    problem = Problem(*shape, "float32", transpose_b=transpose_b)
    at = drawn(runner, problem, DataSpec(distribution="uniform"))
    whole = computed(prepared(runner, NAME, problem, never_cut, config), at)
    put = prepared(runner, NAME, problem, lambda kernel: kernel, config)
    found = computed(put, at)
    for _ in range(5):
        assert (computed(put, at) == found).all()
    bits = [each.view(np.float32).get().astype(np.float64) for each in (whole, found)]
    assert np.abs(bits[0] - bits[1]).max() <= (0.0 if config["min_products"] == 6 else 2.0**-23 * np.abs(bits[0]).max())


def test_launches_at_once(runner: CudaRunner) -> None:
    """Their blocks take multiprocessors from each other."""
    problem = Problem(300, 520, 9000, "float32")
    put = prepared(runner, NAME, problem, lambda kernel: kernel)
    sets = [drawn(runner, problem, DataSpec(seed=seed)) for seed in range(4)]
    check_launches_at_once(put, sets, [computed(put, at) for at in sets], 50)


@pytest.mark.parametrize("kind", ["normal", "12 binades in a row", "cancelling halves"])
@pytest.mark.parametrize("shape", [(860, 220, 9874), (300, 300, 20_000), (2134, 218, 11_460)], ids=str)
def test_deep_products_are_no_further_off_than_cublas(
    runner: CudaRunner, kind: str, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    problem = Problem(*shape, "float32")
    assert parts_of(runner, problem, emulated().resolve_config()) > 1
    a, b = operand_kinds.KINDS[kind](*shape, rng)
    true = a.astype(np.float64) @ b
    library, _, _ = multiply(runner, "cublas", problem, a, b, rng)
    ours, check, _ = multiply(runner, NAME, problem, a, b, rng, config={"min_products": 8})
    assert check.passed
    assert relative_error(ours, true) <= relative_error(library, true) * 1.05
