"""Products of 8-bit operands with block scales: multiplied on the CPU, checked as what they stand for, and refused
where anything of them is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.errors import OperandOutOfRange
from jobs.formats import float8
from jobs.formats.elements import Array
from kernels.model.accuracy import element_bound
from kernels.model.numerics import Problem
from kernels.model.scales import SCALE_WIDTHS, scale_shape, width_of
from tests.support.scaled.operands import scaled_operands, scaled_problem, true_matrix, true_product
from worker.check.verify import check
from worker.cpu.scaled import multiply_scaled
from worker.cuda.scaled.arrangement import by_stage, for_bulk_copies, for_library
from worker.device.runner import operands_as_checked
from worker.device.scaled import ScaledOperand, check_values

Spoil = Callable[[Array], None]
DEPTHS = st.sampled_from([0, 1, 3, 127, 128, 129, 255, 256, 257, 300, 511])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    a_batched, b_batched = draw(st.booleans()), draw(st.booleans())
    sizes = st.sampled_from([1, 2, 5, 127, 128, 129, 200])
    return scaled_problem(
        draw(sizes),
        draw(sizes),
        draw(DEPTHS),
        draw(st.sampled_from(SCALE_WIDTHS)),
        batch=draw(st.integers(1, 3)) if a_batched or b_batched else 1,
        transpose_a=draw(st.booleans()),
        transpose_b=draw(st.booleans()),
        a_batched=a_batched,
        b_batched=b_batched,
    )


@settings(max_examples=15)
@given(problem=problems(), seed=st.integers(0, 1000), width_a=st.sampled_from(SCALE_WIDTHS))
def test_a_product_is_right_and_passes_its_check(problem: Problem, seed: int, width_a: int) -> None:
    a, b = scaled_operands(problem, np.random.default_rng(seed), width_a)
    c = multiply_scaled(problem, a, b)
    true, size = true_product(problem, a, b)
    off = np.abs(c.reshape(true.shape) - true)
    bound = element_bound("fp32", "float8_e4m3", problem.k, is_scaled=True)
    assert (off <= bound.sum * size + bound.output * np.abs(true) + bound.underflow).all()
    found = check(problem, "fp32", operands_as_checked(problem, a, b, c), np.random.default_rng(seed))
    assert found.passed


def as_multiplied(problem: Problem, a: ScaledOperand, b: ScaledOperand, *, spoil_a: Spoil, spoil_b: Spoil) -> bool:
    """Whether a product of scales that were spoilt passes the check against those that were sent."""
    spoilt = []
    for operand, spoil in ((a, spoil_a), (b, spoil_b)):
        scales = operand.scales.elements.copy()
        spoil(scales)
        spoilt.append(ScaledOperand(operand.stored, type(operand.scales)(scales), operand.block))
    c = multiply_scaled(problem, spoilt[0], spoilt[1])
    return bool(check(problem, "fp8", operands_as_checked(problem, a, b, c), np.random.default_rng(7)).passed)


def nothing(_scales: Array) -> None:
    return


def one_off(scales: Array) -> None:
    scales[1, 1] *= 1.5


def neighbours_swapped(scales: Array) -> None:
    scales[0, :2] = scales[0, 1::-1]


def shifted_along_k(scales: Array) -> None:
    scales[:] = np.roll(scales, 1, axis=1)


def shifted_along_lines(scales: Array) -> None:
    scales[:] = np.roll(scales, 1, axis=0)


def last_of_odd_k(scales: Array) -> None:
    scales[:, -1] = scales[:, -2]


def sign_lost(scales: Array) -> None:
    scales[-1, -1] *= -1


FAULTS: list[Spoil] = [
    one_off,
    neighbours_swapped,
    shifted_along_k,
    shifted_along_lines,
    last_of_odd_k,
    sign_lost,
]


@pytest.mark.parametrize(("side", "sizes"), [("a", (40, 129, 311)), ("b", (90, 300, 311))])
def test_faults_of_scales_are_caught(side: str, sizes: tuple[int, int, int]) -> None:
    """Of a product large enough for random projections, and of one whose elements are all computed again."""
    problem = scaled_problem(*sizes, transpose_b=True)
    a, b = scaled_operands(problem, np.random.default_rng(3))
    for operand in (a, b):
        elements = operand.scales.elements
        elements[:] = np.random.default_rng(4).uniform(0.5, 2, elements.shape)
    assert as_multiplied(problem, a, b, spoil_a=nothing, spoil_b=nothing)
    for fault in FAULTS:
        spoils = {"spoil_a": nothing, "spoil_b": nothing, f"spoil_{side}": fault}
        assert not as_multiplied(problem, a, b, **spoils), fault


def test_sums_of_blocks_have_a_bound_that_does_not_grow_with_k() -> None:
    """Constant data as tensor cores of 14 bits would sum them: blocks drift, and the whole does not."""
    short, deep = (element_bound("fp8", "float8_e4m3", k, is_scaled=True).sum for k in (128, 1 << 20))
    assert short < deep < 1.01 * short < element_bound("fp8", "float8_e4m3", 4096).sum / 5
    problem = scaled_problem(3, 4, 1024)
    a, b = scaled_operands(problem, np.random.default_rng(1))
    for operand in (a, b):
        operand.elements[:] = float8.narrow(np.ones(1, np.float32))
        operand.scales.elements[:] = 1.0
    right = np.full((3, 4), 1024.0, np.float32)
    for factor, passes in ((1.0, True), (1 + 2**-6, True), (1 + 2**-4, False)):
        checked = check(
            problem, "fp8", operands_as_checked(problem, a, b, right * np.float32(factor)), np.random.default_rng(1)
        )
        assert checked.passed is passes, factor


def test_zeros_nan_and_signs_follow_ieee_rules() -> None:
    problem = scaled_problem(2, 3, 130)
    a, b = scaled_operands(problem, np.random.default_rng(2))
    a.elements[0, 5] = 0x7F  # NaN
    a.scales.elements[:] = [[0.0, 1.0], [-1.0, 0.0]]
    c = multiply_scaled(problem, a, b)
    assert np.isnan(c[0]).all() and np.isfinite(c[1]).all()
    assert check(problem, "fp8", operands_as_checked(problem, a, b, c), np.random.default_rng(1)).passed
    assert np.allclose(c[1], true_matrix(a)[1, :128] @ true_matrix(b)[:128], rtol=1e-5)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf, 2.0**61, -(2.0**61), 2.0**-61, 1e-45])
def test_a_scale_that_is_out_of_range_is_refused(scale: float) -> None:
    scales = np.ones((3, 2), np.float32)
    scales[2, 1] = scale
    with pytest.raises(OperandOutOfRange, match=r"scale_b\[2, 1\] is .*; a scale must be 0, or"):
        check_values("b", scales)
    check_values("a", np.array([0.0, -0.0, 2.0**60, -(2.0**-60)], np.float32))


@pytest.mark.parametrize(
    ("operand", "transposed", "scales", "width"),
    [
        ("a", False, (300, 3), 1),
        ("a", False, (3, 3), 128),
        ("a", True, (3, 257), 1),
        ("b", False, (3, 257), 1),
        ("b", False, (3, 3), 128),
        ("b", True, (300, 3), 1),
        ("b", True, (300, 2), None),
        ("a", False, (2, 300, 3), None),
    ],
)
def test_shapes_say_how_many_lines_share_a_scale(
    operand: str, transposed: bool, scales: tuple[int, ...], width: int | None
) -> None:
    assert width_of(operand, (300, 257), scales, transposed=transposed) == width
    assert scale_shape((7, 300, 257), (128, 1)) == (7, 3, 257)


@given(width=st.sampled_from(SCALE_WIDTHS), sizes=st.tuples(*[st.integers(1, 700)] * 3), seed=st.integers(0, 99))
def test_scales_lie_as_each_kernel_reads_them(width: int, sizes: tuple[int, int, int], seed: int) -> None:
    """Each is found where the kernel looks for it: by the threads of `hopper_fp8`, and by cublasLt."""
    m, n, k = sizes
    problem = scaled_problem(m, n, k, width, transpose_b=True)
    a, b = scaled_operands(problem, np.random.default_rng(seed), width)
    of_a, of_b = by_stage(problem, a, "a"), by_stage(problem, b, "b")
    copied, (lines_of_a, of_library) = for_bulk_copies(problem, of_b), for_library(problem, of_a, of_b)
    stage, row, column = (k - 1) // 128, m - 1, n - 1
    block_a, block_b = a.scales.elements[row // width, stage], b.scales.elements[column // width, stage]
    assert of_a[0, stage, row] == lines_of_a[0, stage, row] == block_a
    assert lines_of_a.shape == (1, stage + 1, -(-m // 16) * 16)
    if width == 1:
        thread, half, second = column % 8 // 2, column // 8 % 2, column % 2
        assert copied[0, stage, column // 16 * 16 + thread * 4 + half * 2 + second] == block_b
        assert of_library[0, stage, column] == block_b and of_library.shape[2] == -(-n // 16) * 16
    else:
        assert (copied[0, stage, column // 128 * 4 : column // 128 * 4 + 4] == block_b).all()
        assert of_library[0, column // 128, stage] == block_b and of_library.shape[2] % 4 == 0
