"""Products of a campaign by seed and number: which problem, of what data, by what kernel, and the truth of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, Problem
from tests.campaign.backends import Backend, Made, Way
from tests.campaign.data import CLEAN_FLOATS, EXTREME, FAULTY_FLOATS, INTEGERS, OVERFLOW, operands
from tests.campaign.truth import Truth, truth_of
from worker.check.elements import core
from worker.check.views.as_real import in_blocks, real_view, signs_of

DEEPEST = 300_000
MAX_TERMS = 1 << 21  # m·n·k of a faulty product: the truth takes them one by one
TILE = 128  # of the largest tile that is spoilt
CLEAN_EXTENT, CLEAN_DEPTH = 48, 256
Sort = Literal["plain", "large", "deep", "overflow"]
SORTS: tuple[Sort, ...] = ("plain",) * 5 + ("large", "deep", "overflow")
EXTREME_SHARE, DEEP_SHARE = 0.15, 0.002  # of clean products
BATCHED = 0.15


@dataclass(frozen=True)
class Scene:
    """A right product, to be spoilt. A complex one is shown as the real one that it is, with parts as elements."""

    number: int
    way: Way
    asked: Problem
    data: str
    sent: tuple[Array, Array]
    made: Made
    other: Array  # the product of other operands of the same kind, (batch, m, n)

    @property
    def is_complex(self) -> bool:
        return DTYPES[self.asked.dtype].is_complex

    @property
    def problem(self) -> Problem:
        return self.asked.as_real

    @cached_property
    def a(self) -> Array:
        a = self.sent[0]
        return real_view(core(a, transposed=self.asked.transpose_a)) if self.is_complex else a

    @cached_property
    def b(self) -> Array:
        b = self.sent[1]
        return in_blocks(core(b, transposed=self.asked.transpose_b), signs_of(self.asked)) if self.is_complex else b

    @property
    def c(self) -> Array:
        return self.shown(self.made.c)

    def shown(self, c: Array) -> Array:
        return real_view(c) if self.is_complex else c

    @cached_property
    def truth(self) -> Truth:
        return truth_of(self.problem, self.way.accuracy, self.a, self.b)

    def __str__(self) -> str:
        return f"number {self.number}: {self.way}, {self.data}, {self.asked}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A product by its number: `rng` draws its operands."""

    way: Way
    problem: Problem
    data: str
    rng: np.random.Generator


def faulty(ways: Sequence[Way], seed: int, number: int) -> Plan:
    """For faults. An eighth is large enough for the largest tile, one is deep, and one overflows, if it can."""
    rng = np.random.default_rng((seed, number, 0))
    sort: Sort = SORTS[rng.integers(len(SORTS))]
    fit = [way for way in ways if sort != "overflow" or _can_overflow(way)]
    if not fit:
        sort, fit = "plain", list(ways)
    way = fit[rng.integers(len(fit))]
    data = OVERFLOW if sort == "overflow" else _data(rng, way, FAULTY_FLOATS)
    return Plan(way, _problem(rng, way, *_sizes(rng, sort)), data, rng)


def clean(ways: Sequence[Way], seed: int, number: int) -> Plan:
    """To be checked as it is: kernels by turns, every kind of data."""
    rng, way = np.random.default_rng((seed, number, 1)), ways[number % len(ways)]
    deep = rng.random() < DEEP_SHARE
    m, n = (_log_uniform(rng, 1, 4 if deep else CLEAN_EXTENT) for _ in range(2))
    k = _log_uniform(rng, 1000, DEEPEST) if deep else _log_uniform(rng, 1, CLEAN_DEPTH)
    data = _data(rng, way, CLEAN_FLOATS)
    if rng.random() < EXTREME_SHARE and not DTYPES[way.dtype].is_integer:
        data = EXTREME[rng.integers(len(EXTREME))]
    if data == OVERFLOW and not _can_overflow(way):
        data = "normal"
    return Plan(way, _problem(rng, way, m, n, k), data, rng)


def scene(backend: Backend, seed: int, number: int) -> Scene:
    plan = faulty(backend.ways, seed, number)
    way, problem = plan.way, plan.problem
    stale, fresh = (operands(problem, plan.data, plan.rng, way.accuracy) for _ in range(2))
    other = backend.made(way, problem, *stale).c.copy()
    other = real_view(other) if DTYPES[problem.dtype].is_complex else other
    return Scene(number, way, problem, plan.data, fresh, backend.made(way, problem, *fresh), other)


def _can_overflow(way: Way) -> bool:
    return way.accuracy not in ("exact", "fp16") and way.dtype != "float8_e4m3"


def _data(rng: np.random.Generator, way: Way, floats: tuple[str, ...]) -> str:
    kinds = INTEGERS if DTYPES[way.dtype].is_integer else floats
    return str(kinds[rng.integers(len(kinds))])


def _sizes(rng: np.random.Generator, sort: Sort) -> tuple[int, int, int]:
    if sort == "large":
        m, n = (int(rng.integers(TILE, TILE + 33)) for _ in range(2))
        return m, n, _log_uniform(rng, 1, MAX_TERMS // (m * n))
    if sort == "deep":
        m, n = (_log_uniform(rng, 2, 8) for _ in range(2))
        return m, n, _log_uniform(rng, 1000, min(DEEPEST, MAX_TERMS // (m * n)))
    m, n = (_log_uniform(rng, 2, 96) for _ in range(2))
    return m, n, _log_uniform(rng, 1, min(2000, MAX_TERMS // (m * n) // 2))


def _problem(rng: np.random.Generator, way: Way, m: int, n: int, k: int) -> Problem:
    plain = Problem(m, n, k, way.dtype, 1, *way.transposes)
    if DTYPES[way.dtype].is_complex:
        conjugates = (bool(rng.integers(2)), bool(rng.integers(2)))
        plain = replace(plain, conjugate_a=conjugates[0], conjugate_b=conjugates[1])
    if rng.random() >= BATCHED or m * n * k > MAX_TERMS // 8:
        return plain
    over_a, over_b = ((True, True), (True, False), (False, True))[rng.integers(3)]
    return replace(plain, batch=int(rng.integers(2, 4)), a_batched=over_a, b_batched=over_b)


def _log_uniform(rng: np.random.Generator, least: int, most: int) -> int:
    most = max(least, most)
    return min(most, round(float(np.exp(rng.uniform(np.log(least), np.log(most))))))
