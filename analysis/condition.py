"""The condition in which a case was measured. This module alone decides whether its figures can support a conclusion.

    from analysis.condition import condition

A case with several problems has the kind that comes first in `SENTENCES`, and its sentence names all of them. If
sampling ended at its limit, the case has converged if the 95 % interval of its median lies within ±2 %: narrower than
any difference that is called a dip; `comparison/compare.py` also looks at the samples' own intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.benchmarks.records import CaseRecord
from kernels.published_records import ConditionKind, Status

CONVERGED = 0.02  # of the median: half the width of the widest interval of a converged case
HELD_DOWN = {"sw_thermal": "heat", "hw_thermal": "heat", "power_brake": "the power brake"}  # NVML's reasons in words
SENTENCES: dict[ConditionKind, str] = {
    "contended": "Another process used the device while it was measured.",
    "throttled": "Heat or a power brake held the clock down while it was measured.",
    "not converged": "Its samples ended before its median was known.",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """Whether a case's figures can support a conclusion, and if not, why."""

    kind: ConditionKind
    sentence: str = ""
    status: Status = "ok"

    @property
    def is_clean(self) -> bool:
        return self.kind == "clean"

    @property
    def label(self) -> str:
        """The text of a table cell."""
        return self.status if self.kind in ("clean", "no figure") else f"{self.status}, {self.kind}"


CLEAN = Condition("clean")


def condition(record: CaseRecord) -> Condition:
    """The condition of one round, or of a case with pooled rounds."""
    if record.status != "ok":
        return Condition("no figure", record.reason or f"It has no figure: {record.status}.", record.status)
    found = list(_disturbances(record))
    return Condition(found[0][0], " ".join(sentence for _, sentence in found)) if found else CLEAN


def of_kind(kind: ConditionKind, status: Status = "ok") -> Condition:
    """The condition if only its kind was kept, as in published results."""
    if status != "ok":
        return Condition("no figure", f"It has no figure: {status}.", status)
    return Condition(kind, SENTENCES.get(kind, ""))


def _disturbances(record: CaseRecord) -> Iterator[tuple[ConditionKind, str]]:
    if record.contended:
        yield "contended", SENTENCES["contended"]
    if record.throttled:
        yield "throttled", _throttled(record)
    if (within := _unconverged(record)) is not None:
        yield "not converged", within


def _throttled(record: CaseRecord) -> str:
    held = (name for name, held_ns in record.state.event_reason_ns.items() if held_ns)
    if causes := dict.fromkeys(HELD_DOWN[name] for name in held if name in HELD_DOWN):
        words = " and ".join(causes)
        return f"{words[0].upper()}{words[1:]} held the clock down while it was measured."
    if record.discarded:
        share = 100 * record.discarded / (record.discarded + record.samples)
        return f"The clock was so far down that {share:.0f} % of its samples were thrown away."
    return SENTENCES["throttled"]


def _unconverged(record: CaseRecord) -> str | None:
    """A sentence if sampling ended at a limit before the median was known precisely."""
    if record.stop_reason in (None, "precise") or not record.kernel_ms:
        return None
    lo_us, hi_us = record.ci95_lo_us, record.ci95_hi_us
    if lo_us is None or hi_us is None:
        return f"Its {record.samples} samples are too few to tell its median."
    half_width = (hi_us - lo_us) / (2e3 * record.kernel_ms)
    if half_width <= CONVERGED:
        return None
    if half_width >= 1.0:
        return "Its samples are too far apart to tell its median."
    return f"Its samples ended with the median known to ±{100 * half_width:.1f} % only."
