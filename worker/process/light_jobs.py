"""Computes the light products of one claim one after the other. Their ends are recorded in few steps, as long as this
delays no caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from jobs.errors import DeviceFault, StaleAttempt
from jobs.ledger.interface import Claimed
from worker.process.ends import End
from worker.process.lease import Hold, LeaseKeeper

MAX_LIGHT = 16  # of a claim
SLICE_S = 0.004  # after which the end of the first is recorded, with those that came since: a step takes a tenth of it

Ends = list[tuple[Claimed, End]]


def one_after_another(
    claimed: Sequence[Claimed],
    lease: LeaseKeeper,
    compute: Callable[[Sequence[Claimed], Hold], Ends],
    record: Callable[[Ends], None],
) -> None:
    """Each has its own time limit, from when it is begun. One that was called off is left out. After a fault of the
    device none is begun: what `record` does about it hands the others back."""
    ends: Ends = []
    with lease.hold(claimed, waits=True) as waiting:
        first_at = time.monotonic()
        for each in claimed:
            with suppress(StaleAttempt), lease.hold([each]) as hold:
                waiting.check(each)
                ends += compute([each], hold)
            is_faulty = bool(ends) and isinstance(ends[-1][1], DeviceFault)
            if is_faulty or time.monotonic() - first_at > SLICE_S:
                record(ends)
                if is_faulty:
                    return
                ends, first_at = [], time.monotonic()
        record(ends)
