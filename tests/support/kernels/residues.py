"""`fp64_emulated` in Python's own integers: lines of float64 as integers and remainders, what is judged of them, and
the product that is put together of remainders.

A line is a row of A or a column of B, and the last axis of an array runs along k. As residue_layout.cuh,
residue_moduli.cuh and residue_judge.cuh have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, frexp, log2, prod

import numpy as np

from jobs.formats.elements import Array
from tests.support.exact import absolute_sums, exact

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
COUNTS = (14, 15, 16)  # of moduli in use, by way
NORMS = dict(zip(COUNTS, map(float.fromhex, ("0x1.7e74p54", "0x1.4f8p58", "0x1.234ep62")), strict=True))
LOG_NORMS = {14: 54.579, 15: 58.390, 16: 62.186}
QUARTER_LOGS = {4: 0.0, 5: 0.3219, 6: 0.5849, 7: 0.8073}
MOST_ABOVE, SPARED, LEAST_WEIGHT, STEPS_OF_WEIGHT = 4.0, 0.05, -8.0, 1024
SMALLEST_NORMAL = 2.0**-1022


@dataclass(frozen=True)
class Line:
    """What is known of a line that has other elements than zeros, all of them finite."""

    squares: float  # Σ(element / 2^exponent)²
    exponent: int
    logs: float  # of normal numbers, relative to 2^exponent and rounded down to a 16th each
    count: int  # of normal numbers
    depth: int


def limit(count: int) -> float:
    """What two lines' weights may be together."""
    return LOG_NORMS[count] - 51 - SPARED


def line_of(elements: Array) -> Line | None:
    """None of a line of zeros."""
    magnitudes = np.abs(elements)
    if not magnitudes.any():
        return None
    exponent = frexp(magnitudes.max())[1]
    normal = magnitudes[magnitudes >= SMALLEST_NORMAL]
    upper = (normal.view(np.uint64) >> np.uint64(48)).astype(np.int64)
    scaled = np.ldexp(np.ldexp(magnitudes, -(exponent // 2)), -(exponent - exponent // 2))
    below = upper.sum() / 16 - len(normal) * (1023 + exponent)
    return Line(float((scaled**2).sum()), exponent, float(below), len(normal), len(elements))


def scale_of(line: Line | None, count: int, squares: float | None = None) -> tuple[int, int]:
    """Power of two and quarters. `squares`: as the passes found it, which may be a little more."""
    if line is None:
        return 0, 0
    room = NORMS[count] * (1 - 2.0**-16) / np.sqrt(line.squares if squares is None else squares)
    mantissa, power = frexp(room)
    return power - 1 - line.exponent, int(mantissa * 8)


def weight_of(line: Line, count: int, scale: tuple[int, int]) -> float:
    """In binades."""
    power, quarters = scale
    above = power + line.exponent + QUARTER_LOGS[quarters] + 0.5 * log2(line.depth) - LOG_NORMS[count]
    part = line.count / line.depth
    of_zeros = (1 - part) * (limit(count) + 2 * MOST_ABOVE + 1.45)
    return -line.logs / line.depth + of_zeros - min(above, MOST_ABOVE)


def heaviest(lines: Array, count: int) -> float:
    """LEAST_WEIGHT where all lines are zeros."""
    found = [line for line in map(line_of, lines) if line is not None]
    return max((weight_of(line, count, scale_of(line, count)) for line in found), default=LEAST_WEIGHT)


def judge(a: Array, b: Array) -> int | None:
    """How many moduli a product of these lines takes; None where it is left to float64."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    for count in COUNTS:
        steps = sum(ceil((heaviest(lines, count) - LEAST_WEIGHT) * STEPS_OF_WEIGHT) for lines in (a, b))
        if steps <= (limit(count) - 2 * LEAST_WEIGHT) * STEPS_OF_WEIGHT:
            return count
    return None


def integer_of(value: float, scale: tuple[int, int]) -> int:
    """value · 2^power · quarters/4, halves to even."""
    power, quarters = scale
    numerator, denominator = value.as_integer_ratio()
    upwards = power - 2 - (denominator.bit_length() - 1)
    if upwards >= 0:
        return numerator * quarters << upwards
    whole, rest = divmod(numerator * quarters, 1 << -upwards)
    half = 1 << -upwards - 1
    return whole + (rest > half or (rest == half and whole % 2 == 1))


def integers(lines: Array, scales: list[tuple[int, int]]) -> Array:
    """Python's own, as objects."""
    found = [[integer_of(value, scale) for value in line] for line, scale in zip(lines.tolist(), scales, strict=True)]
    return np.array(found, object)


def remainders(whole: Array, modulus: int) -> Array:
    """int8, from -⌊modulus/2⌋ on."""
    half = modulus // 2
    found: Array = ((whole + half) % modulus - half).astype(np.int8)
    return found


def bytes_of_sums(sums: Array, modulus: int) -> Array:
    """What is stored for sums of products (residue_sums.cuh), in float32 as the device does it: 128 less than a number
    of which the sum is a multiple of the modulus away."""
    exact = 1 << 23
    biased = sums.astype(np.int64) + (1 << 30)
    offset = (-(1 << 30) - 128 - exact) % modulus
    number: Array = np.full(sums.shape, offset + exact)
    for byte in range(4):
        number += (biased >> 8 * byte & 0xFF) * pow(256, byte, modulus)
    inverse, rounding = np.float64(np.float32(1) / np.float32(modulus)), 1.5 * 2.0**23
    quotient = (number * inverse + rounding).astype(np.float32).astype(np.int64) - int(rounding)
    found: Array = np.asarray((number - quotient * modulus + 128 & 0xFF) - 128)
    return found


def scales_of(lines: Array, count: int) -> list[tuple[int, int]]:
    return [scale_of(line_of(line), count) for line in lines]


def from_remainders(found: list[int], count: int) -> int:
    """The integer nearest to 0 that has these."""
    all_of_them = prod(MODULI[:count])
    total = 0
    for remainder, modulus in zip(found, MODULI[:count], strict=True):
        others = all_of_them // modulus
        total += remainder * others * pow(others, -1, modulus)
    total %= all_of_them
    return total - all_of_them if 2 * total > all_of_them else total


BITS, PIECES = 42, 3
BASE = 2**BITS


def pieces_of(whole: int) -> list[int]:
    """Digits to base BASE, of which the lower two may be negative."""
    found = []
    for _ in range(PIECES - 1):
        found.append((whole + BASE // 2) % BASE - BASE // 2)
        whole = (whole - found[-1]) // BASE
    return [*found, whole]


def added(one: float, other: float) -> tuple[float, float]:
    """Their sum, and what it leaves out."""
    most = one + other
    of_other = most - one
    return most, (one - (most - of_other)) + (other - of_other)


def fused(one: float, other: float, more: float) -> float:
    """one · other + more, rounded once."""
    return float(Fraction(one) * Fraction(other) + Fraction(more))


def put_together(found: list[int], count: int) -> tuple[float, float]:
    """As residue_join.cuh does it: an integer over BASE out of its remainders, 0 to the modulus, and what the number
    leaves out. Raises AssertionError where a sum of pieces would not be exact."""
    moduli = MODULI[:count]
    all_of_them = prod(moduli)
    sums = [0] * PIECES
    for remainder, modulus in zip(found, moduli, strict=True):
        others = all_of_them // modulus
        inverse = pow(others, -1, modulus)
        sign, magnitude = (-1, modulus - inverse) if 2 * inverse > modulus else (1, inverse)
        sums = [each + sign * remainder * own for each, own in zip(sums, pieces_of(magnitude * others), strict=True)]
    of_all = pieces_of(all_of_them)
    per_all = 1 / ((of_all[0] / BASE + of_all[1]) / BASE + of_all[2])
    times = round(fused(float(sums[2]), per_all, 0.0))
    lowest, middle, highest = (float(each - times * own) for each, own in zip(sums, of_all, strict=True))
    assert all(each == int(each) and abs(each) < 2**53 for each in (lowest, middle, highest))
    most, rest = added(highest * BASE, middle)
    return added(most, fused(lowest, 1 / BASE, rest))


def scaled_back(most: float, rest: float, quarters: tuple[int, int]) -> float:
    """Times 16 / (quarters · quarters'), rounded once."""
    product_of_quarters = float(quarters[0] * quarters[1])
    unit = 16 / product_of_quarters
    of_unit = fused(-unit, product_of_quarters, 16.0) / product_of_quarters
    return fused(most, unit, fused(most, of_unit, rest * unit))


def rounded(numerator: int, denominator: int) -> float:
    """The ratio in float64, infinite beyond its range."""
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")


def product(a: Array, b: Array, count: int) -> Array:
    """A·B of lines, by so many moduli, rounded once."""
    scales_a, scales_b = scales_of(a, count), scales_of(b, count)
    whole = integers(a, scales_a) @ integers(b, scales_b).T
    found = np.zeros(whole.shape)
    for i, (power_a, quarters_a) in enumerate(scales_a):
        for j, (power_b, quarters_b) in enumerate(scales_b):
            if quarters_a and quarters_b:
                power, quarters = power_a + power_b, quarters_a * quarters_b
                found[i, j] = rounded(16 * whole[i, j] << max(-power, 0), quarters << max(power, 0))
    return found


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """A·B and |A|·|B| of lines, as fractions."""
    true, sizes = exact(a, b.T), absolute_sums(a, b.T)
    return np.array(true, object), np.array(sizes, object)


def part_of_bound(c: Array, a: Array, b: Array) -> float:
    """The largest part of what the class of fp64 grants an element that one is off by, without drift."""
    true, sizes = exact_product(a, b)
    root = Fraction(np.sqrt(a.shape[1])) * 4 * Fraction(1, 2**53)
    granted = sizes * root + np.abs(true) * Fraction(1, 2**53) + Fraction(1, 2**1074)
    off = [abs(Fraction(value) - exact) for value, exact in zip(c.ravel().tolist(), true.ravel(), strict=True)]
    return float(max(one / most for one, most in zip(off, granted.ravel(), strict=True)))
