"""Symmetric products on a GPU: one triangle is computed, the other its mirror image, and the check sees both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model import triangle
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.triangles import computes_triangle
from tests.gpu.products import choice, compile_all, multiply
from tests.support.kernels.products import assert_right, exact, matrix

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

WIDTHS = ((256, 4, 2), (192, 4, 2), (128, 6, 1), (64, 6, 1))  # columns, stages, blocks of a cluster
KERNELS: tuple[tuple[str, DTypeName, tuple[TileConfig, ...]], ...] = (
    ("hopper_bf16", "bfloat16", tuple({"block_n": n, "stages": s, "cluster": c} for n, s, c in WIDTHS)),
    ("hopper_fp16", "float16", (NO_CONFIG,)),
    ("hopper_tf32", "float32", tuple({"block_n": n, "stages": s, "cluster": c} for n, s, c in WIDTHS[1:3])),
    ("hopper_int8", "int8", tuple({"block_n": n, "stages": s, "cluster": c} for n, s, c in WIDTHS[::2])),
    ("hopper_fp32", "float32", ({"block_m": 128, "block_n": 128},)),
    ("tensor_fp64", "float64", ({"resident": 1, "stages": 3},)),
)
CASES = [(name, dtype, config) for name, dtype, configs in KERNELS for config in configs]
SIZES = ((1, 1), (64, 65), (129, 31), (257, 300), (1000, 512), (2049, 129), (4100, 64))
WAYS = ((False, True), (True, False))


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size are mirrored, and not just those where that is quicker."""
    monkeypatch.setattr(triangle, "mirror_clocks", lambda _: -np.inf)


def problem_of(n: int, k: int, dtype: DTypeName, transposes: tuple[bool, bool]) -> Problem:
    return Problem(n, n, k, dtype, 1, *transposes, symmetric=True)


def product(
    runner: CudaRunner, case: tuple[str, DTypeName, TileConfig], problem: Problem, x: Array, rng: np.random.Generator
) -> tuple[Array, bool | None]:
    """Of one matrix that has one copy on the device, and whether the check passed."""
    name, _, config = case
    chosen = choice(runner, name, problem, config)
    assert computes_triangle(chosen.kernel, chosen.config, problem)
    c, check, _ = multiply(runner, name, problem, x, x, rng, config=config, ids=("x", "x"))
    runner.cache.clear()
    return c, check.passed


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triangle, "mirror_clocks", lambda _: -np.inf)
        wanted = ((name, config, problem_of(9, 9, dtype, way)) for name, dtype, config in CASES for way in WAYS)
        traits = session_runner.device.traits
        named = (
            (BY_NAME[name].resolve_config(config, None, traits), name, problem) for name, config, problem in wanted
        )
        compile_all(session_runner, ((name, config, problem) for config, name, problem in named))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, (case[0], *case[2].values()))))
@pytest.mark.parametrize("way", WAYS)
def test_products(
    runner: CudaRunner,
    case: tuple[str, DTypeName, TileConfig],
    way: tuple[bool, bool],
    rng: np.random.Generator,
) -> None:
    for n, k in SIZES:
        problem = problem_of(n, k, case[1], way)
        x = matrix((k, n) if way[0] else (n, k), case[1], rng, "integers" if case[0] == "hopper_tf32" else "normal")
        c, passed = product(runner, case, problem, x, rng)
        assert passed, problem
        np.testing.assert_array_equal(c, c.T, err_msg=str(problem))
        if case[1] == "int8":
            np.testing.assert_array_equal(c, exact(problem, x, x), err_msg=str(problem))
        else:
            assert_right(problem, x, x, c)


@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=lambda case: case[0])
def test_the_check_sees_a_triangle_that_was_not_mirrored(
    runner: CudaRunner,
    case: tuple[str, DTypeName, TileConfig],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = problem_of(1500, 400, case[1], WAYS[0])
    x = matrix((1500, 400), case[1], rng)
    assert product(runner, case, problem, x, rng)[1]
    monkeypatch.setattr("worker.cuda.bound_kernel._put_mirror", lambda *_: None)
    assert product(runner, case, problem, x, rng)[1] is False


@pytest.mark.parametrize("way", WAYS)
def test_infinities_stay_where_they_belong(
    runner: CudaRunner, way: tuple[bool, bool], rng: np.random.Generator
) -> None:
    """A row of X with an infinity has a row and a column of C without a number."""
    kernel = BY_NAME["hopper_fp32"]
    assert isinstance(kernel, CudaKernel)
    x = matrix((300, 70), "float32", rng)
    x[77, 5] = np.inf
    stored = np.ascontiguousarray(x.T) if way[0] else x
    c, passed = product(runner, CASES[-2], problem_of(300, 70, "float32", way), stored, rng)
    spoilt = ~np.isfinite(c)
    assert passed and spoilt[77].all() and spoilt[:, 77].all() and spoilt.sum() == 599
