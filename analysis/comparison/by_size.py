"""Compares two runs by size when they have no common case: the fastest kernel of each run at each size."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from analysis.answers.answer import fastest
from analysis.comparison.alike import unlike
from analysis.curves import speed, usable
from analysis.measurement import Measurement, size_of
from kernels.model.numerics import DTYPES


@dataclass(frozen=True, slots=True)
class SizeComparison:
    """The fastest kernel of each run for one product. The ratio is None if either was disturbed, or if they
    were not measured alike."""

    before: Measurement
    after: Measurement
    ratio: float | None

    @property
    def size(self) -> str:
        return size_of(self.before.m, self.before.n, self.before.k, self.before.batch)

    @property
    def why_not(self) -> str:
        """Why the two are not comparable; empty if they are."""
        sides = (("Before", self.before.condition), ("After", self.after.condition))
        disturbed = [f"{name}: {condition.sentence}" for name, condition in sides if not condition.is_clean]
        return " ".join((*disturbed, *filter(None, [unlike(self.before, self.after)])))


def by_size(before: Iterable[Measurement], after: Iterable[Measurement]) -> list[SizeComparison]:
    """Compares every product, element type and accuracy class that both runs have, in the order of the first run. A
    kernel of unknown class is taken to be of its element type's own."""
    old, new = _groups(before), _groups(after)
    pairs = ((fastest(group), fastest(new[key])) for key, group in old.items() if key in new)
    return [_compared(one, other) for one, other in pairs if one is not None and other is not None]


def _groups(found: Iterable[Measurement]) -> dict[Hashable, list[Measurement]]:
    groups: dict[Hashable, list[Measurement]] = {}
    for each in filter(usable, found):
        accuracy = each.accuracy or DTYPES[each.dtype].accuracy
        groups.setdefault((each.dtype, accuracy, each.m, each.n, each.k, each.batch), []).append(each)
    return groups


def _compared(before: Measurement, after: Measurement) -> SizeComparison:
    is_fair = before.condition.is_clean and after.condition.is_clean and unlike(before, after) is None
    return SizeComparison(before, after, speed(after) / speed(before) if is_fair else None)
