"""The phases of a launch, reported by the code that runs them and collected if spans are exported."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field

from jobs.models import Measured

now = time.time_ns


@dataclass(frozen=True, slots=True)
class Phase:
    """Times are nanoseconds since the epoch. `job`: whose it is; None for all jobs of the launch."""

    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, float] = field(default_factory=dict)
    job: str | None = None


@dataclass(slots=True)
class Phases:
    """The phases of one launch so far."""

    found: list[Phase] = field(default_factory=list)
    job: str | None = None  # the one that is computed by itself now


current: ContextVar[Phases | None] = ContextVar("phases", default=None)


def one_job(job_id: str) -> None:
    """Phases reported from now on belong to this job alone."""
    if (phases := current.get()) is not None:
        phases.job = job_id


def tell_product(began: int, computed: int, checked: int, kept: int, measured: Measured) -> None:
    """Reports the phases of a product, from the times at which it was begun, multiplied, checked and stored.

    Devices report how long copies and the kernel took, not when. The kernel is taken to end when the device was done;
    everything before it, including the wait for the device, counts as the upload.
    """
    if (phases := current.get()) is None:
        return
    kernel_began = max(began, computed - round(measured.kernel_ms * 1e6))
    phases.found += [
        Phase("upload", began, kernel_began, {"matmul.h2d_ms": measured.h2d_ms}, phases.job),
        Phase("kernel", kernel_began, computed, {"matmul.kernel_ms": measured.kernel_ms}, phases.job),
        Phase("check", computed, checked, {}, phases.job),
        Phase("download", checked, kept, {"matmul.d2h_ms": measured.d2h_ms}, phases.job),
    ]
