"""One fault, as the plan has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.stack import ChaosStack


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: what it strikes; `other`, a checkout of another version, for restarts."""

    kind: str
    at: str
    seconds: float
    number: int = 0
    other: Path | None = None


Strike = Callable[[ChaosStack, Fault], bool]
"""Brings the fault about, and ends it: it returns once it has passed. False where it found nothing to strike."""
