"""What became of the faults of a campaign, kind by kind, and of its clean products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Self

ENOUGH = 0.9999  # of the faults above the class's bound are to be caught
MAX_DESCRIBED = 5


@dataclass(slots=True)
class Tally:
    """Of one kind of fault. `above`: at least one element is further off than its class allows, and than what the check
    promises to tell from the rounding of the rest of its row; `in_noise`: than the first alone."""

    injected: int = 0
    in_noise: int = 0
    in_noise_caught: int = 0
    above: int = 0
    caught: int = 0  # of `above`
    within_refused: int = 0  # of those that are not `above`
    worst_missed: float = 0.0  # largest error of those missed, in bounds of the class; infinite where one is not finite
    missed_by_class: Counter[str] = field(default_factory=Counter)
    described: list[str] = field(default_factory=list)  # some of those missed

    @property
    def missed(self) -> int:
        return self.above - self.caught

    @property
    def is_enough(self) -> bool:
        return self.caught >= ENOUGH * self.above

    def count(self, excess: float, passed: bool, accuracy: str, what: str, *, in_noise: bool = False) -> None:
        """One injection."""
        self.injected += 1
        if excess <= 1.0:
            self.within_refused += not passed
            return
        if in_noise:
            self.in_noise += 1
            self.in_noise_caught += not passed
            return
        self.above += 1
        self.caught += not passed
        if passed:
            self.worst_missed = max(self.worst_missed, excess)
            self.missed_by_class[accuracy] += 1
            if len(self.described) < MAX_DESCRIBED:
                self.described.append(f"{excess:.3g} times the bound: {what}")

    def add(self, other: Self) -> None:
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(other, one.name)
            setattr(self, one.name, max(mine, theirs) if one.name == "worst_missed" else mine + theirs)
        del self.described[MAX_DESCRIBED:]


@dataclass(slots=True)
class Result:
    """Of one process, or of all."""

    faults: dict[str, Tally]
    clean: Counter[str] = field(default_factory=Counter)  # products checked, by kernel
    clean_seconds: float = 0.0  # processor time of their checks
    refused: list[str] = field(default_factory=list)  # clean products that the check does not let pass
    outside: list[str] = field(default_factory=list)  # products that are outside their class before any fault
    scenes: int = 0

    @property
    def passed(self) -> bool:
        return not self.refused and not self.outside and all(one.is_enough for one in self.faults.values())

    def add(self, other: Self) -> None:
        for name, tally in other.faults.items():
            self.faults[name].add(tally)
        self.clean += other.clean
        self.clean_seconds += other.clean_seconds
        self.refused += other.refused
        self.outside += other.outside
        self.scenes += other.scenes

    def as_record(self) -> dict[str, Any]:
        return {
            "faults": {name: _rounded(tally) for name, tally in self.faults.items()},
            "clean": {
                "products": self.clean.total(),
                "refused": len(self.refused),
                "by_kernel": dict(sorted(self.clean.items())),
                "check_seconds": round(self.clean_seconds, 1),
                "described": self.refused[:MAX_DESCRIBED],
            },
            "outside_their_class": {"products": len(self.outside), "described": self.outside[:MAX_DESCRIBED]},
            "scenes": self.scenes,
        }


def _rounded(tally: Tally) -> dict[str, Any]:
    """As JSON has it: a worst error that is infinite is the text "inf"."""
    worst = tally.worst_missed
    return {
        "injected": tally.injected,
        "above": tally.above,
        "caught": tally.caught,
        "missed": tally.missed,
        "worst_missed": float(f"{worst:.3g}") if worst < 1e300 else "inf",
        "missed_by_class": dict(sorted(tally.missed_by_class.items())),
        "within_refused": tally.within_refused,
        "in_noise": tally.in_noise,
        "in_noise_caught": tally.in_noise_caught,
        "described": tally.described,
    }


def total(results: Iterable[Result]) -> Result:
    first, *others = results
    for other in others:
        first.add(other)
    return first


def report(result: Result) -> Iterator[str]:
    """Lines for a terminal."""
    yield f"{'fault':40} {'injected':>9} {'above':>9} {'caught':>9} {'missed':>9} {'in noise':>9}  worst missed"
    for name, one in result.faults.items():
        mark = "" if one.is_enough else "  MISSED"
        worst = f"{one.worst_missed:.3g}" if one.missed else ""
        yield f"{name:40} {one.injected:9} {one.above:9} {one.caught:9} {one.missed:9} {one.in_noise:9}  {worst}{mark}"
    yield f"{result.clean.total()} clean products, {len(result.refused)} refused; {result.scenes} products spoilt"
    yield from (f"refused: {each}" for each in result.refused[:MAX_DESCRIBED])
    yield from (f"outside its class: {each}" for each in result.outside[:MAX_DESCRIBED])
