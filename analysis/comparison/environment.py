"""The environments of two runs, and their differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Fields that differ in every run and say nothing.
VOLATILE = frozenset({"recorded_at"})
# The project's own version: a history follows a case across versions.
OWN = frozenset({"project"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that differs; None stands for a run that does not have it."""

    name: str  # dotted, as in `versions.cupy`
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The differences, sorted by name."""
    old, new = dict(flat(before)), dict(flat(after))
    names = sorted(old.keys() | new.keys())
    pairs = ((name, old.get(name), new.get(name)) for name in names)
    return tuple(Difference(name=name, before=was, after=now) for name, was, now in pairs if was != now)


def fingerprint(environment: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A key that is equal for runs in the same environment, whatever version of this project they ran."""
    return tuple(sorted((name, repr(value)) for name, value in flat(environment) if name not in OWN))


def flat(environment: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and their values, without the fields that differ in every run."""
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif prefix or name not in VOLATILE:
            yield f"{prefix}{name}", value
