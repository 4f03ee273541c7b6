"""`fp64_emulated` by its model: remainders tell integers, and what is judged keeps the bound of its class, on data made
against it. Everything is compared with exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import gcd, isqrt, log2, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobs.formats.elements import Array
from kernels.entries.fp64_emulated import FP64_EMULATED, LARGEST_DEPTH, MOST, SMALLEST_SIDE, is_direct
from kernels.model.architectures import H200
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.choose import choose, choose_again
from kernels.selection.fallbacks import fallback_of
from kernels.selection.tuned import TABLES
from tests.support.kernels.residues import (
    COUNTS,
    LEAST_WEIGHT,
    LOG_NORMS,
    MODULI,
    NORMS,
    bytes_of_sums,
    from_remainders,
    heaviest,
    integers,
    judge,
    limit,
    line_of,
    part_of_bound,
    product,
    remainders,
    scale_of,
    scales_of,
)

SIDE, DEPTH = 12, 96
Pair = tuple[Array, Array]
FINITE = st.floats(width=64, allow_nan=False, allow_infinity=False)


def normal(rng: np.random.Generator) -> Pair:
    return rng.standard_normal((SIDE, DEPTH)), rng.standard_normal((SIDE, DEPTH))


def changed(change: Callable[[Array, Array, np.random.Generator], None]) -> Callable[[np.random.Generator], Pair]:
    def make(rng: np.random.Generator) -> Pair:
        a, b = normal(rng)
        change(a, b, rng)
        return a, b

    return make


def cancel(a: Array, b: Array, rng: np.random.Generator) -> None:
    half = DEPTH // 2
    a[:, half:], b[:, half:] = a[:, :half] * (1 + 1e-15 * rng.standard_normal((SIDE, half))), -b[:, :half]


def scale_rows(a: Array, b: Array, rng: np.random.Generator) -> None:
    a *= np.ldexp(1.0, rng.integers(-900, 900, (SIDE, 1)))
    b *= np.ldexp(1.0, rng.integers(-100, 100, (SIDE, 1)))


def grade(binades: float) -> Callable[[Array, Array, np.random.Generator], None]:
    def change(a: Array, b: Array, _rng: np.random.Generator) -> None:
        a *= np.exp2(-np.linspace(0, binades, DEPTH))
        b *= np.exp2(-np.linspace(binades, 0, DEPTH))

    return change


def one_large(power: int, partner: float) -> Callable[[Array, Array, np.random.Generator], None]:
    def change(a: Array, b: Array, _rng: np.random.Generator) -> None:
        a[0] *= 2.0**-power
        a[0, 0], b[:, 0] = 1.0, partner

    return change


def constant(a: Array, b: Array, _rng: np.random.Generator) -> None:
    a[:], b[:] = 1 / 3, 0.1


def halves(a: Array, b: Array, _rng: np.random.Generator) -> None:
    """Every element is rounded by a half, all the same way."""
    power, quarters = scale_of(line_of(np.full(DEPTH, 1.0)), 14)
    step = 2.0**-power * 4 / quarters
    a[:] = np.nextafter(0.75, 1) + step / 2
    b[:] = a[:]


def zeros(part: float, of_both: bool) -> Callable[[Array, Array, np.random.Generator], None]:
    def change(a: Array, b: Array, rng: np.random.Generator) -> None:
        a[rng.random(a.shape) < part] = 0.0
        if of_both:
            b[rng.random(b.shape) < part] = 0.0

    return change


def subnormal(a: Array, b: Array, _rng: np.random.Generator) -> None:
    a[:] *= 2.0**-1060
    b[:] *= 2.0**40


def largest(a: Array, b: Array, _rng: np.random.Generator) -> None:
    a[:] = np.copysign(np.finfo(np.float64).max, a)
    b[:] *= 2.0**-200


KINDS: Mapping[str, tuple[Callable[[np.random.Generator], Pair], int | None]] = {
    "normal": (normal, 14),
    "uniform": (lambda rng: (rng.random((SIDE, DEPTH)), rng.random((SIDE, DEPTH))), 14),
    "cancelling": (changed(cancel), 14),
    "rows and columns far apart": (changed(scale_rows), 14),
    "constant": (changed(constant), 14),
    "halves": (changed(halves), 14),
    "graded by 4": (changed(grade(4)), 15),
    "graded by 12": (changed(grade(12)), None),
    "a row 16 binades below an element that meets zeros": (changed(one_large(16, 0.0)), None),
    "a row 16 binades below an element that meets next to nothing": (changed(one_large(16, 2.0**-40)), None),
    "a tenth zeros": (changed(zeros(0.1, of_both=False)), 15),
    "zeros meet zeros": (changed(zeros(0.5, of_both=True)), None),
    "subnormal numbers": (changed(subnormal), None),
    "the largest numbers": (changed(largest), 14),
}


def test_moduli_have_no_common_divisor_and_norms_leave_room() -> None:
    assert all(gcd(one, other) == 1 for index, one in enumerate(MODULI) for other in MODULI[:index])
    for count in COUNTS:
        largest_norm = isqrt((prod(MODULI[:count]) - 1) // 2)
        assert NORMS[count] ** 2 <= prod(MODULI[:count]) / 2 * (1 - 2.0**-9)
        assert NORMS[count] > largest_norm * (1 - 2.0**-9)
        assert LOG_NORMS[count] <= log2(NORMS[count]) < LOG_NORMS[count] + 0.002


@given(st.integers(min_value=-(2**62), max_value=2**62), st.sampled_from(COUNTS))
def test_remainders_tell_an_integer(whole: int, count: int) -> None:
    found = [int(remainders(np.array([whole], object), modulus)[0]) for modulus in MODULI[:count]]
    assert all(-128 <= each <= 127 for each in found)
    assert from_remainders(found, count) == whole


@given(arrays.arrays(np.float64, 30, elements=FINITE), st.sampled_from(COUNTS))
def test_a_scaled_line_is_as_long_as_it_may_be(elements: Array, count: int) -> None:
    """Its norm is at most R, and not much less unless its elements are too few for that."""
    line = line_of(elements)
    (whole,) = integers(elements[np.newaxis], [scale_of(line, count)])
    squares = sum(each**2 for each in whole.tolist())
    assert squares <= Fraction(NORMS[count]) ** 2
    if line is not None:
        assert 2 * squares >= Fraction(NORMS[count]) ** 2


@pytest.mark.parametrize("name", KINDS)
def test_every_element_keeps_the_bound_of_float64(name: str) -> None:
    """By the number of moduli that is judged enough; what is left to float64 is left for a reason."""
    make, count = KINDS[name]
    a, b = make(np.random.default_rng(1))
    assert judge(a, b) == count
    if count is not None:
        assert part_of_bound(product(a, b, count), a, b) <= 1.0


@pytest.mark.parametrize(
    "name", [name for name, (_, count) in KINDS.items() if count is None and name != "subnormal numbers"]
)
def test_what_is_left_to_float64_would_not_be_right(name: str) -> None:
    """With fewest moduli such products do lose elements, or come near to it: the judge is not there for nothing."""
    a, b = KINDS[name][0](np.random.default_rng(1))
    assert heaviest(a, 16) + heaviest(b, 16) > limit(16)
    assert name == "zeros meet zeros" or part_of_bound(product(a, b, 14), a, b) > 0.1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_judged_enough_keeps_the_bound(data: st.DataObject) -> None:
    """Elements of any size and sign, few of which are ordinary."""
    exponents = st.integers(-1080, 1020)
    shared = data.draw(exponents)
    near = st.integers(-data.draw(st.integers(0, 12)), 0)
    mantissas = arrays.arrays(np.float64, (3, 24), elements=st.floats(0.5, 1.0, exclude_max=True))
    signs = arrays.arrays(np.int64, (3, 24), elements=st.sampled_from([-1, 1, 1, 1, 0]))
    powers = arrays.arrays(np.int64, (3, 24), elements=near)
    pair = []
    for base in (shared, data.draw(st.integers(-60, 60)) - shared):
        elements = data.draw(mantissas) * data.draw(signs)
        pair.append(np.ldexp(elements, np.clip(data.draw(powers) + base, -1080, 1023)))
    a, b = pair
    count = judge(a, b)
    if count is not None:
        assert part_of_bound(product(a, b, count), a, b) <= 1.0


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["normal", "graded by 4", "a tenth zeros", "uniform", "cancelling"])
def test_weights_bound_what_they_are_for(name: str, count: int) -> None:
    """The sum of magnitudes of scaled lines is R·2^51 at least, times what weights leave of their limit."""
    a, b = KINDS[name][0](np.random.default_rng(2))
    scaled = []
    for lines in (a, b):
        found = zip(lines, scales_of(lines, count), strict=True)
        scaled.append(np.array([np.ldexp(np.abs(line) * (quarters / 4), power) for line, (power, quarters) in found]))
    least = (scaled[0] @ scaled[1].T).min()
    spare = limit(count) - heaviest(a, count) - heaviest(b, count)
    assert log2(least) >= LOG_NORMS[count] + 51 + spare


def test_lines_of_zeros_weigh_nothing() -> None:
    zeros_only = np.zeros((2, 70))
    assert heaviest(zeros_only, 14) == LEAST_WEIGHT
    assert judge(zeros_only, np.random.default_rng(3).standard_normal((2, 70))) == 14
    assert line_of(zeros_only[0]) is None and not product(zeros_only, zeros_only, 14).any()


def test_no_int32_overflows_and_no_integer_64_bits() -> None:
    assert NORMS[MOST] < 2.0**63 and (511 * 128 + 96) * 128**2 + 256 < 2**30
    assert LARGEST_DEPTH == 2**24 and isqrt(LARGEST_DEPTH) < NORMS[14] * 2.0**-20


def test_short_sides_go_to_float64() -> None:
    assert is_direct(Problem(SMALLEST_SIDE - 1, 4096, 4096, "float64"))
    assert not is_direct(Problem(SMALLEST_SIDE, SMALLEST_SIDE, SMALLEST_SIDE, "float64"))
    kernel = FP64_EMULATED[0]
    assert isinstance(kernel, CudaKernel)
    plan = kernel.plan(Problem(63, 4096, 4096, "float64"), kernel.resolve_config())
    assert not plan.passes and plan.workspace is not None and plan.workspace.bytes == 0


def test_memory_beside_the_matrices() -> None:
    """Sixteen bytes for an element of each matrix."""
    kernel = FP64_EMULATED[0]
    assert isinstance(kernel, CudaKernel)
    plan = kernel.plan(Problem(8192, 8192, 8192, "float64"), kernel.resolve_config())
    assert plan.workspace is not None
    assert 3 * 16 * 8192**2 < plan.workspace.bytes < 3.1 * 16 * 8192**2


def test_auto_takes_it_where_it_was_measured_to_be_worth_its_fallback() -> None:
    """And never without figures: not on a device of whose model it was not measured, nor for another attempt."""
    fallback = fallback_of(FP64_EMULATED[0])
    assert fallback is not None
    measured = [(table, entry) for table in TABLES for entry in table.entries if entry.dtype == "float64"]
    taken = 0
    for table, entry in measured:
        speeds = {row.kernel: row.gflops for row in entry.ranking}
        own, others = speeds.pop("fp64_emulated", 0.0), max(speeds.values())
        chosen = choose("auto", {}, entry.problem, "fp64", table.traits).kernel.name
        assert (chosen == "fp64_emulated") == (own >= fallback.worth(entry.problem) * others)
        taken += chosen == "fp64_emulated"
    assert taken > 0
    for size in (512, 1024, 2048, 4096, 8192, 16384):
        problem = Problem(size, size, size, "float64")
        assert choose_again(problem, "fp64", H200.traits).kernel.name != "fp64_emulated"
    assert choose("fp64_emulated", {}, Problem(512, 512, 512, "float64"), "fp64", H200.traits).config["block_n"] == 256


@pytest.mark.parametrize("modulus", MODULI)
def test_a_byte_tells_the_remainder_of_any_sum(modulus: int) -> None:
    """Up to the largest magnitude that sums may have, and around all multiples of half the modulus near to it and to
    zero."""
    most = (1 << 30) - 1
    rng, near = np.random.default_rng(modulus), np.arange(-4 * modulus, 4 * modulus)
    ends = near - most + 4 * modulus, most - 4 * modulus + near
    sums = np.concatenate([near, *ends, rng.integers(-most, most, 50_000)])
    found = bytes_of_sums(sums, modulus)
    assert np.all((sums - (found + 128)) % modulus == 0)
    assert found.min() >= -128 and found.max() <= 127


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(COUNTS))
def test_three_products_of_remainders_tell_both_parts_of_a_complex_product(seed: int, k: int, count: int) -> None:
    """Of lines whose norms are at the limit. Sums of an element's numbers have a bit more, and remainders of a byte."""
    rng = np.random.default_rng(seed)
    scale = NORMS[count] / np.sqrt(2 * k)
    x, y, x_of_b, y_of_b = (np.array([int(value) for value in rng.uniform(-scale, scale, k)], object) for _ in range(4))
    of_a, of_b = (x - y, x, y), (x_of_b, y_of_b - x_of_b, y_of_b + x_of_b)
    parts: tuple[list[int], list[int]] = [], []
    for modulus in MODULI[:count]:
        first, second, third = (
            int(remainders(one, modulus).astype(np.int64) @ remainders(other, modulus).astype(np.int64))
            for one, other in zip(of_a, of_b, strict=True)
        )
        parts[0].append((first + third) % modulus)
        parts[1].append((first + second) % modulus)
    exact = x @ x_of_b + y @ y_of_b, x @ y_of_b - y @ x_of_b
    assert tuple(from_remainders(part, count) for part in parts) == exact
