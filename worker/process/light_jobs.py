"""Computes the light products of one claim one after the other. Their ends are recorded in few steps, as long as this
delays no caller, and while Redis carries out a step the next products are computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from jobs.errors import DeviceFault, StaleAttempt
from jobs.ledger.interface import Claimed
from worker.process.ends import End, Ends
from worker.process.lease import Hold, LeaseKeeper

MAX_LIGHT = 16  # of a claim
SLICE_S = 0.004  # after which the end of the first is recorded, with those that came since: a step takes a tenth of it


def one_after_another(
    claimed: Sequence[Claimed],
    lease: LeaseKeeper,
    compute: Callable[[Sequence[Claimed], Hold], Ends],
    in_steps: Callable[[], AbstractContextManager[Callable[[Ends], None]]],
) -> None:
    """Computes each job with a time limit of its own, which starts when the job begins. Cancelled jobs are skipped.
    After a device fault no more are begun: recording it hands the others back. All leases are kept until the last end
    is recorded."""
    ends: list[tuple[Claimed, End]] = []
    with lease.hold(claimed, waits=True) as waiting, in_steps() as record:
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
