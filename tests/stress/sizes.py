"""Sizes of random products: ragged and whole, short and long, none too large for its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from random import Random

from kernels.model.kernel import DeviceClass
from kernels.model.numerics import DTYPES, DTypeName

MIN_SIZE, MAX_SIZE, MAX_LONG_SIZE = 1, 1500, 4096  # of m, n and k, and of the few that are longer
LONG, EMPTY, SNAPPED = 0.06, 0.005, 0.35  # shares: of sizes, of k, of sizes
STEPS = (4, 8, 16, 64, 128)  # that some sizes are whole multiples of: other paths of a kernel
# Multiply-adds of a product: the reference takes them in float64, on the CPU, and a CPU's worker takes them besides.
MAX_MULTIPLICATIONS: Mapping[DeviceClass, int] = {"gpu": 1 << 31, "cpu": 1 << 26}
COMPLEX_TIMES = 4  # as many of a complex product


def sizes(random: Random, count: int, most: int, extents: Sequence[tuple[int, int]] = ()) -> tuple[int, ...]:
    """Some sizes whose product is at most `most`; `extents`: between what, in place of the usual."""
    drawn = [_between(random, *ends) for ends in extents] or [_size(random) for _ in range(count)]
    while _product(drawn) > most:
        longest = drawn.index(max(drawn))
        drawn[longest] -= drawn[longest] // 3
    return tuple(drawn)


def may_be_empty(random: Random, k: int) -> int:
    return 0 if random.random() < EMPTY else k


def most_of(device_class: DeviceClass, dtype: DTypeName) -> int:
    most = MAX_MULTIPLICATIONS[device_class]
    return most // COMPLEX_TIMES if DTYPES[dtype].is_complex else most


def _product(drawn: Sequence[int]) -> int:
    product = 1
    for each in drawn:
        product *= each
    return product


def _size(random: Random) -> int:
    ends = (MAX_SIZE, MAX_LONG_SIZE) if random.random() < LONG else (MIN_SIZE, MAX_SIZE)
    return _between(random, *ends)


def _between(random: Random, least: int, most: int) -> int:
    """Even over the logarithm."""
    size = round(exp(random.uniform(log(least), log(most))))
    if random.random() >= SNAPPED:
        return size
    step = random.choice(STEPS)
    return -(-size // step) * step
