"""Speeds of kernels as shares of the library's speed, product by product."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from analysis.curves import is_library, speed, usable
from analysis.library import Library, LibraryLine
from analysis.measurement import Interval, Measurement, size_of


@dataclass(frozen=True, slots=True)
class Share:
    """A kernel's fastest config; its speed over the library's, with the interval of that ratio."""

    measurement: Measurement
    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class SharedProduct:
    """One product of one element type and accuracy: the library's fastest result, and all kernels, fastest first. If
    that result is on padded operands, it is not listed among the kernels, because it was measured as another product.
    """

    line: LibraryLine
    shares: Sequence[Share]

    @property
    def library(self) -> Measurement:
        return self.line.same

    @property
    def size(self) -> str:
        return size_of(self.library.m, self.library.n, self.library.k, self.library.batch)


def share_of(one: Measurement, library: Measurement) -> Share:
    """Both measurements must be usable."""
    value = speed(one) / speed(library)
    mine, its = one.interval_ms, library.interval_ms
    if one is library or mine is None or its is None:
        return Share(one, value, None)
    return Share(one, value, Interval(its.lo / mine.hi, its.hi / mine.lo))


def shared_products(measurements: Iterable[Measurement]) -> list[SharedProduct]:
    """Products that the library and another kernel have figures for, in order of first appearance."""
    known = list(measurements)
    groups: dict[Hashable, dict[str, Measurement]] = {}
    for each in filter(usable, known):
        key = (each.device.key, each.dtype, each.accuracy, each.m, each.n, each.k, each.batch)
        fastest = groups.setdefault(key, {})
        if each.label not in fastest or speed(each) > speed(fastest[each.label]):
            fastest[each.label] = each
    library = Library(known)
    found = (_shared(sorted(group.values(), key=lambda one: -speed(one)), library) for group in groups.values())
    return [each for each in found if each is not None]


def _shared(ordered: Sequence[Measurement], library: Library) -> SharedProduct | None:
    line = library.best(ordered[0])
    if line is None or all(is_library(one.kernel) for one in ordered):
        return None
    return SharedProduct(line, [share_of(one, line.same) for one in ordered])
