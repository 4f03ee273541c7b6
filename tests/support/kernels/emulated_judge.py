"""How `fp32_emulated` judges lines and tiles, in NumPy: the sums of logarithms, which lines are listed, whether the
whole product goes to float32, and how many int8 products a tile takes. As emulated_measure.cuh, emulated_judge.cuh and
emulated_way.cuh have it."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2

import numpy as np

from jobs.formats.elements import Array
from tests.support.kernels.emulated import Way, line_exponents, line_quarters

LINES = 128
SMALLEST_NORMAL, LOG_SHIFT = 0x00800000, 19
APART = 8  # rows that are summed by fours, where lines lie across
NORMAL_MEANS = np.float32(0.53)
BEYOND: dict[Way, float] = {"six": 1.2, "eight": 1.5, "ten": 7.77}
STEPS_OF_WEIGHT, NO_DIGITS = 8, 255
LISTED_PART, MIN_LISTED, PARTS = 32, 4, 1 << 20


@dataclass(frozen=True)
class Logs:
    """Of each line: how many elements are normal numbers, and the sum of their logs; the same of sums of four."""

    count: Array
    sum: Array
    fours: Array
    sum_of_fours: Array


@dataclass(frozen=True)
class Lines:
    """What is found about the lines of one matrix."""

    weight: Array  # binades
    spread: Array  # (largest element / root mean square)², as told from means of four
    kept: Array  # the weight in steps, rounded up
    is_empty: Array


@dataclass(frozen=True)
class Judged:
    """What follows for a product: of A's rows and B's columns, which are listed; of tiles, their ways, row by row."""

    in_float32: bool
    rows: Array
    columns: Array
    ways: list[Way]


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(np.abs(values)).view(np.uint32)


def _counted(bits: Array) -> tuple[Array, Array]:
    normal = bits >= SMALLEST_NORMAL
    return normal.sum(axis=1), np.where(normal, bits >> LOG_SHIFT, 0).sum(axis=1, dtype=np.int64)


def logs(lines: Array, *, along: bool) -> Logs:
    """`along`: lines lie along memory, so that four neighbours are summed; else steps of k that lie APART."""
    unit = 4 if along else 4 * APART
    steps = np.pad(np.abs(lines), ((0, 0), (0, -lines.shape[1] % unit)))
    fours = steps.reshape(len(lines), -1, 4) if along else steps.reshape(len(lines), -1, 4, APART).swapaxes(2, 3)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (fours[..., 0] + fours[..., 1]) + (fours[..., 2] + fours[..., 3])
    return Logs(*_counted(_bits(lines)), *_counted(_bits(sums.reshape(len(lines), -1))))


def limit(way: Way, depth: int) -> float:
    return 0.5 * log2(depth) + BEYOND[way]


def judge_lines(lines: Array, *, along: bool) -> Lines:
    found, depth, single = logs(lines, along=along), lines.shape[1], np.float32
    peaks = np.abs(lines).max(axis=1)
    has_digits = np.isfinite(peaks) & (found.count > 0)
    finite = np.where(has_digits[:, np.newaxis], lines, single(1))
    below = np.array([0.0, 0.3219281, 0.5849625, 0.8073549], single)[line_quarters(finite)]
    full = (line_exponents(finite) + 127).astype(single) - below
    count, fours = np.maximum(found.count, 1).astype(single), np.maximum(found.fours, 1).astype(single)
    part = count / single(depth)
    zero = single(limit("ten", depth) + 1.5)
    weight = (full - found.sum.astype(single) / (16 * count)) * part + zero * (1 - part)
    means = full - found.sum_of_fours.astype(single) / (16 * fours) + single(2) - NORMAL_MEANS
    with np.errstate(over="ignore"):  # only where a line is listed
        spread = np.exp2(2 * means) * np.maximum(single(depth) / (4 * fours), 1)
    kept = np.minimum(np.ceil(np.maximum(weight, 0) * STEPS_OF_WEIGHT).astype(int), NO_DIGITS - 1)
    is_empty = peaks == 0
    kept = np.where(is_empty, 0, np.where(has_digits, kept, NO_DIGITS))
    return Lines(np.where(has_digits, weight, single(0)), np.where(has_digits, spread, single(0)), kept, is_empty)


def division(of_a: Lines, of_b: Lines, depth: int) -> tuple[int, int]:
    """The largest weights of A and of B that are not listed."""
    most = min(floor(limit("ten", depth) * STEPS_OF_WEIGHT), NO_DIGITS - 1)
    if of_a.kept.max() + of_b.kept.max() <= most:
        return NO_DIGITS, NO_DIGITS

    def parts(of: Lines, weight: int) -> int:
        return int((of.kept > weight).sum()) * PARTS // len(of.kept)

    costs = [parts(of_a, weight) + parts(of_b, most - weight) for weight in range(most + 1)]
    best = int(np.argmin(costs))
    return best, most - best


def _blocks(of: Lines, listed: Array) -> list[tuple[float, float, float, float]]:
    """The heaviest, the mean weight, the widest and the mean spread of each block of lines."""
    found = []
    for first in range(0, len(listed), LINES):
        here = slice(first, first + LINES)
        counted = ~of.is_empty[here] & ~listed[here]
        weights, spreads = of.weight[here][counted], of.spread[here][counted]
        if not len(weights):
            weights = spreads = np.zeros(1, np.float32)
        found.append((weights.max(), weights.mean(), spreads.max(), spreads.mean()))
    return found


def way_of(a: tuple[float, ...], b: tuple[float, ...], depth: int) -> Way:
    """For a tile, from what is found of its blocks of lines."""

    def as_float32(one: float, other: float, way: Way) -> bool:
        granted, rounded, dropped = 0.27**2 * depth, 0.34 * (one + other), one * other
        if way == "six":
            return 0.22 * dropped + rounded <= granted
        return 0.11 / 65536 * dropped + rounded <= 0.4 * granted

    def carried(way: Way) -> bool:
        weight = max(a[0] + b[1], a[1] + b[0])
        as_right = as_float32(a[2], b[3], way) and as_float32(a[3], b[2], way)
        return as_right and weight <= limit(way, depth) and a[0] + b[0] <= log2(depth) - 1

    return "six" if carried("six") else "eight" if carried("eight") else "ten"


def judge(a: Array, b: Array, *, along: tuple[bool, bool]) -> Judged:
    """Of one product; B is given by its columns."""
    of_a, of_b = judge_lines(a, along=along[0]), judge_lines(b, along=along[1])
    depth = a.shape[1]
    most = division(of_a, of_b, depth)
    listed = [of.kept > weight for of, weight in zip((of_a, of_b), most, strict=True)]
    in_float32 = any(one.sum() > max(len(one) // LISTED_PART, MIN_LISTED) for one in listed)
    blocks = [_blocks(of, one) for of, one in zip((of_a, of_b), listed, strict=True)]
    ways = [way_of(one, other, depth) for one in blocks[0] for other in blocks[1]]
    rows, columns = (np.flatnonzero(one) for one in listed)
    return Judged(in_float32, rows, columns, ways)
