"""What two runs were taken in, and what of it is not alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# What is other every time and tells nothing.
VOLATILE = frozenset({"recorded_at"})
# The project itself: a history follows it across versions.
OWN = frozenset({"project"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is not alike; None where a run does not say."""

    name: str  # dotted, as in `versions.cupy`
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """By name."""
    old, new = dict(flat(before)), dict(flat(after))
    names = sorted(old.keys() | new.keys())
    pairs = ((name, old.get(name), new.get(name)) for name in names)
    return tuple(Difference(name=name, before=was, after=now) for name, was, now in pairs if was != now)


def fingerprint(environment: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Equal for runs in the same surroundings, whatever version of this project they ran."""
    return tuple(sorted((name, repr(value)) for name, value in flat(environment) if name not in OWN))


def flat(environment: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and their values, without what is other every time."""
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif prefix or name not in VOLATILE:
            yield f"{prefix}{name}", value
