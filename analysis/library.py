"""The best result of the library that a run has measured.

Of the library's kernels of the same accuracy, the fastest counts, tuned ones included. If the run also measured it at
the next multiples of 64, the same product on operands padded with zeros counts as well: its time there, for the useful
operations alone. The copies that padding needs are not part of that time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.curves import Extents, case_key, is_library, rank, speed, usable
from analysis.measurement import Measurement, size_of

ALIGNED = 64  # elements: libraries are fast at multiples of it
# For each kernel of the library, the one that times all algorithms the library proposes, also on padded sizes.
TUNED: Mapping[str, str] = {"cublas": "cublas_tuned", "cublas_tf32": "cublas_tf32_tuned"}


@dataclass(frozen=True, slots=True)
class LibraryLine:
    """The library result that a product is compared with. `measured`: the case as it was run; `same`: the case as it
    counts for the product."""

    measured: Measurement
    same: Measurement

    @property
    def is_padded(self) -> bool:
        return self.measured is not self.same

    @property
    def padded_to(self) -> str | None:
        one = self.measured
        return size_of(one.m, one.n, one.k) if self.is_padded else None

    @property
    def name(self) -> str:
        return f"{self.same.label}, padded to {self.padded_to}" if self.is_padded else self.same.label

    @property
    def may_be_faster(self) -> bool:
        """Whether the library has a faster way at such sizes that the run did not measure."""
        return not self.is_padded and self.same.kernel in TUNED and padded_extents(self.same) is not None


class Library:
    """All results of the library among some measurements, by the products that may be compared with them."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._fastest: dict[Hashable, Measurement] = {}
        for each in measurements:
            if not (usable(each) and is_library(each.kernel)):
                continue
            key = (case_key(each), each.accuracy)
            if key not in self._fastest or rank(each) > rank(self._fastest[key]):
                self._fastest[key] = each

    def best(self, one: Measurement) -> LibraryLine | None:
        """The fastest clean result; a disturbed one only if there is no other."""
        found = [line for line in (self._as_it_lies(one), self._padded(one)) if line]
        return max(found, key=lambda line: rank(line.same), default=None)

    def _as_it_lies(self, one: Measurement) -> LibraryLine | None:
        line = self._fastest.get((case_key(one), one.accuracy))
        return LibraryLine(line, line) if line else None

    def _padded(self, one: Measurement) -> LibraryLine | None:
        if (extents := padded_extents(one)) is None:
            return None
        line = self._fastest.get((case_key(one, extents), one.accuracy))
        return LibraryLine(line, as_part_of(line, one)) if line else None


def padded_extents(one: Measurement) -> Extents | None:
    """The next multiples of 64; None if the extents are multiples already."""
    m, n, k = (-(-extent // ALIGNED) * ALIGNED for extent in (one.m, one.n, one.k))
    return (m, n, k) if (m, n, k) != (one.m, one.n, one.k) else None


def as_part_of(padded: Measurement, one: Measurement) -> Measurement:
    """The padded product's time as the time of the smaller one: its speed counts useful operations alone."""
    same = replace(padded, m=one.m, n=one.n, k=one.k)
    return replace(same, gflops=same.problem.flops / padded.problem.flops * speed(padded))


def baseline_fractions(measurements: Sequence[Measurement]) -> tuple[float | None, ...]:
    """Speed of each measurement over the library's best at the same shape, element type and accuracy class on the same
    device. None if there is no such result: a faster class of arithmetic is not comparable with a slower one."""
    library = Library(measurements)
    return tuple(_fraction(each, library.best(each)) for each in measurements)


def beside_disturbed_library(measurements: Sequence[Measurement]) -> frozenset[int]:
    """Ids of the measurements that only a disturbed result of the library can be compared with."""
    library = Library(measurements)
    lines = ((each, library.best(each)) for each in measurements)
    return frozenset(id(each) for each, line in lines if line is not None and not line.same.condition.is_clean)


def lines_at_their_best(measurements: Sequence[Measurement]) -> Mapping[str, LibraryLine]:
    """For each size of a product that a hand-written kernel computed, the library's best result, if that is not the
    library's own choice on unpadded operands."""
    library = Library(measurements)
    return {_size(each): line for each, line in _held(measurements, library) if line.is_padded or _is_tuned(line)}


def sizes_below_its_best(measurements: Sequence[Measurement]) -> Sequence[str]:
    """Sizes at which the library may have a faster way than the one that was measured."""
    library = Library(measurements)
    return list(dict.fromkeys(_size(each) for each, line in _held(measurements, library) if line.may_be_faster))


def _held(measurements: Iterable[Measurement], library: Library) -> Iterator[tuple[Measurement, LibraryLine]]:
    own = (each for each in measurements if usable(each) and not is_library(each.kernel))
    for each in sorted(own, key=lambda one: one.size):
        if (line := library.best(each)) is not None:
            yield each, line


def _is_tuned(line: LibraryLine) -> bool:
    return line.same.kernel in TUNED.values()


def _size(one: Measurement) -> str:
    return size_of(one.m, one.n, one.k, one.batch)


def _fraction(one: Measurement, line: LibraryLine | None) -> float | None:
    return speed(one) / speed(line.same) if line and usable(one) else None
