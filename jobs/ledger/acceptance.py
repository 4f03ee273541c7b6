"""What became of a success that a worker reported."""

from __future__ import annotations

from enum import IntFlag


class Acceptance(IntFlag):
    """The ledger's answer to a success, as flags; the numbers are those of lua/succeed.lua."""

    REFUSED = 0  # the attempt no longer owns the job
    ACCEPTED = 1
    AWAITED = 2  # accepted, and other jobs waited for its product
    SHARED = 4  # added to one of these: other jobs need operands that were stored for it, so they stay
    NO_ROOM = 8  # instead of these: the store has no room for its product, and the job is still running

    @property
    def is_accepted(self) -> bool:
        return self not in (Acceptance.REFUSED, Acceptance.NO_ROOM)
