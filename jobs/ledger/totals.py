"""What was counted of jobs since the ledger began: with each change, in the same Lua script, so that nothing which is
done twice, restarted or forgotten later makes a figure wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import redis

from jobs.errors import DeviceFault, NoRoomForProduct, OperandDamaged, TimeLimitExceeded, VerificationFailed, WorkerLost
from jobs.redis.client import translated
from jobs.states import TERMINAL

# Told from the start, as 0: a rise from nothing is not seen by who compares two answers.
WATCHED = (DeviceFault, NoRoomForProduct, OperandDamaged, TimeLimitExceeded, VerificationFailed, WorkerLost)


@dataclass(frozen=True, slots=True)
class Totals:
    """`ended`: jobs by the state that they ended in, one that was retried and ended again twice. `attempts_failed`: by
    type of error, also those after which the job ran again."""

    ended: Mapping[str, int]
    attempts_failed: Mapping[str, int]
    dead_lettered: int  # jobs that used up their attempts
    dead: int  # of those, the ones that are neither retried nor forgotten


@translated()
def totals_of(client: redis.Redis, prefix: str) -> Totals:
    """Raises StoreUnavailable."""
    pipe = client.pipeline()
    pipe.hgetall(f"{prefix}counts")
    pipe.zcard(f"{prefix}dead")
    reply: Any = pipe.execute()
    found: dict[str, bytes] = {name.decode(): value for name, value in reply[0].items()}

    def of(kind: str, known: Iterable[str]) -> dict[str, int]:
        rose = {name.partition(":")[2]: int(value) for name, value in found.items() if name.startswith(f"{kind}:")}
        return dict.fromkeys(sorted(known), 0) | rose

    return Totals(
        ended=of("ended", (state.value for state in TERMINAL)),
        attempts_failed=of("attempts_failed", (error.type for error in WATCHED)),
        dead_lettered=int(found.get("dead_lettered", 0)),
        dead=reply[1],
    )
