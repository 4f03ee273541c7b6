"""Grouped products on a real GPU: every kernel that takes groups, and the check of what it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.catalog import BY_NAME
from kernels.model import groups as groups_model
from kernels.model.accuracy import element_bound
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.groups import GroupTable, group_table, groups_of
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.gpu.products import choice, compile_all, multiply
from tests.support.grouped.operands import grouped_operands, grouped_problem, true_product
from worker.check.elements import as_float64, core

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

KERNELS: tuple[tuple[str, DTypeName], ...] = (
    ("hopper_bf16", "bfloat16"),
    ("hopper_fp16", "float16"),
    ("pipelined", "float32"),
    ("pipelined", "float64"),
    ("warp_tiled", "float16"),
    ("warp_tiled", "int8"),
    ("warp_tiled", "float8_e4m3"),
    ("cublas", "bfloat16"),
    ("cublas", "float32"),
    ("cublas", "float64"),
    ("cublas_tf32", "float32"),
)
# Rows of groups, columns, steps of k: single rows, empty groups everywhere, ends of boxes and tiles, one group, many.
SHAPES: tuple[tuple[tuple[int, ...], int, int], ...] = (
    ((1,), 1, 1),
    ((2, 1), 6, 0),
    ((3, 0, 17, 16, 1), 70, 65),
    ((0, 0, 129, 64, 0, 257, 0), 130, 200),
    (tuple(range(40)), 333, 129),
    ((300, 5, 0, 700), 1000, 512),
)
WAYS = (False, True)
HOPPER_CONFIGS: tuple[TileConfig, ...] = tuple(
    {"block_n": n, "stages": s, "cluster": c} for n, s, c in ((256, 4, 2), (256, 4, 1), (192, 4, 2), (128, 6, 1))
)


@pytest.fixture(scope="module", autouse=True)
def compiled(session_runner: CudaRunner) -> None:
    """With all cores."""
    kinds = [(name, grouped_problem((9, 9), 9, 9, dtype, transpose_b=way)) for name, dtype in KERNELS for way in WAYS]
    of_hopper = [grouped_problem((9, 9), 9, 9, "bfloat16", transpose_b=way) for way in WAYS]
    both = [problem for each in of_hopper for problem in (each, replace(each, group_sizes=()))]
    wanted = [(name, NO_CONFIG, problem) for name, problem in kinds]
    wanted += [("hopper_bf16", config, problem) for config in HOPPER_CONFIGS for problem in both]
    traits = session_runner.device.traits
    full = [(name, BY_NAME[name].resolve_config(config, problem, traits), problem) for name, config, problem in wanted]
    compile_all(session_runner, full)


def assert_within_bound(name: str, problem: Problem, pair: tuple[Array, Array], c: Array) -> None:
    true = true_product(problem, *pair)
    if DTYPES[problem.dtype].is_integer:
        np.testing.assert_array_equal(c, true)
        return
    size = np.zeros(true.shape)
    of_b = core(pair[1], transposed=problem.transpose_b)
    for group in groups_of(problem):
        rows = slice(group.first_row, group.first_row + group.problem.m)
        a, b = (np.abs(as_float64(each, problem.dtype)) for each in (pair[0][rows], of_b[group.index]))
        size[rows] = a @ b
    bound = element_bound(BY_NAME[name].accuracy[problem.dtype], problem.dtype, problem.k)
    off = np.abs(as_float64(c, problem.product_dtype) - true)
    of_operands = 4.1 * bound.operand  # both may be cut, not rounded
    limit = (bound.sum + of_operands) * size + bound.output * np.abs(true) + bound.underflow
    assert (off <= limit).all(), (name, problem)


@pytest.mark.parametrize("transposed", WAYS)
@pytest.mark.parametrize(("name", "dtype"), KERNELS)
def test_any_groups(
    runner: CudaRunner, name: str, dtype: DTypeName, transposed: bool, rng: np.random.Generator
) -> None:
    """Each row by the matrix of its own group, within the class's bound, and the check agrees."""
    for sizes, n, k in SHAPES:
        problem = grouped_problem(sizes, n, k, dtype, transpose_b=transposed)
        pair = grouped_operands(problem, rng)
        c, found, _ = multiply(runner, name, problem, *pair, rng)
        assert_within_bound(name, problem, pair, c)
        assert found.passed, (problem, found)


@pytest.mark.parametrize("config", HOPPER_CONFIGS, ids=lambda config: "-".join(map(str, config.values())))
@pytest.mark.parametrize("transposed", WAYS)
def test_configs_give_what_single_products_give(
    runner: CudaRunner, config: TileConfig, transposed: bool, rng: np.random.Generator
) -> None:
    """To the last bit: sums have the same order. Many waves would show a race."""
    problem = grouped_problem((0, 513, 100, 1, 2000, 0, 256, 31), 1500, 777, "bfloat16", transpose_b=transposed)
    a, b = grouped_operands(problem, rng)
    c, found, _ = multiply(runner, "hopper_bf16", problem, a, b, rng, config=config)
    assert found.passed
    for group in groups_of(problem):
        rows = slice(group.first_row, group.first_row + group.problem.m)
        own, *_ = multiply(runner, "hopper_bf16", group.problem, a[rows], b[group.index], rng, config=config)
        np.testing.assert_array_equal(c[rows], own, err_msg=str(group))


def test_not_finite_numbers_stay_in_their_rows(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = grouped_problem((70, 3, 0, 60), 300, 200, "bfloat16")
    a, b = grouped_operands(problem, rng)
    a[70, 0], a[71, 5], b[3, 7, 9] = 0x7F80, 0x7FC0, 0xFF80  # infinity, NaN, minus infinity
    c, found, _ = multiply(runner, "hopper_bf16", problem, a, b, rng)
    assert found.passed
    odd = ~np.isfinite(as_float64(c, "bfloat16"))
    assert odd[70].all() and odd[71].all() and odd[73:, 9].all()
    assert not odd[:70].any() and not odd[72].any() and not np.delete(odd[73:], 9, axis=1).any()


@pytest.mark.parametrize("name", ["hopper_bf16", "warp_tiled"])
@pytest.mark.parametrize("sizes", [(5, 6, 4), (700, 900, 300)])
def test_a_row_times_the_neighbours_matrix_is_found(
    runner: CudaRunner, name: str, sizes: Sequence[int], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is told that a group ends one row early, or late."""
    problem = grouped_problem(sizes, 600, 500, "bfloat16")
    pair = grouped_operands(problem, rng)
    for off in (-1, 1):
        moved = (problem.group_sizes[0] + off, problem.group_sizes[1] - off, *problem.group_sizes[2:])

        def another(_: Problem, tiles_of: Callable[[Problem], int], moved: tuple[int, ...] = moved) -> GroupTable:
            return group_table(grouped_problem(moved, 600, 500, "bfloat16"), tiles_of)

        with monkeypatch.context() as patch:
            patch.setattr(groups_model, "group_table", another)
            fresh = grouped_problem(sizes, 600, 500 + off, "bfloat16")  # not a launch that is kept
            pair = grouped_operands(fresh, rng)
            _, found, _ = multiply(runner, name, fresh, *pair, rng)
        assert found.passed is False, (sizes, off)
    pair = grouped_operands(problem, rng)
    assert multiply(runner, name, problem, *pair, rng)[1].passed


def test_launches_follow_the_groups(runner: CudaRunner, rng: np.random.Generator) -> None:
    """The same shapes in other groups are another product."""
    for sizes in ((10, 20, 30), (30, 20, 10), (0, 60, 0)):
        problem = grouped_problem(sizes, 400, 300, "float32")
        pair = grouped_operands(problem, rng)
        c, found, _ = multiply(runner, "pipelined", problem, *pair, rng)
        assert_within_bound("pipelined", problem, pair, c)
        assert found.passed


def test_kernels_that_take_groups_say_so() -> None:
    named = {name for name, _ in KERNELS}
    for kernel in BY_NAME.values():
        if isinstance(kernel, CudaKernel) and kernel.groups is not None:
            assert kernel.name in named


def test_a_choice_by_name(runner: CudaRunner) -> None:
    assert choice(runner, "warp_tiled", grouped_problem((1, 2), 3, 4)).kernel.name == "warp_tiled"
