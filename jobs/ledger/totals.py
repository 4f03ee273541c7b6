"""What was counted of jobs since the ledger began: with each change, in the same Lua script, so that nothing which is
done twice, restarted or forgotten later makes a figure wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import redis

from jobs.errors import DeviceFault, NoRoomForProduct, OperandDamaged, TimeLimitExceeded, VerificationFailed, WorkerLost
from jobs.redis.client import translated
from jobs.states import TERMINAL

NS_PER_US = 1000

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


@dataclass(frozen=True, slots=True)
class Served:
    """Products that one kernel computed, and what they took all together, in nanoseconds, as in `Timing`.

    `failed` are those that were asked of it and failed."""

    products: int = 0
    launches: int = 0  # small products may share one
    total_ns: int = 0
    queue_ns: int = 0
    h2d_ns: int = 0
    kernel_ns: int = 0
    d2h_ns: int = 0
    failed: int = 0
    failed_ns: int = 0

    def __add__(self, other: Served) -> Served:
        return Served(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Served)))


@translated()
def served_of(client: redis.Redis, prefix: str) -> Mapping[str, Served]:
    """By kernel; failed ones that left the choice open under `auto`. Raises StoreUnavailable."""
    served: dict[str, Served] = {}
    counts: Any = client.hgetall(f"{prefix}counts")
    for field, value in counts.items():
        kind, _, kernel = field.decode().partition(":")
        before = served.get(kernel, Served())
        if kind == "products":
            products, launches, total_us, queue_us, *copies_ns = map(int, value.split())
            times_ns = (total_us * NS_PER_US, queue_us * NS_PER_US, *copies_ns)
            served[kernel] = before + Served(products, launches, *times_ns)
        elif kind == "failed_products":
            served[kernel] = before + Served(failed=int(value))
        elif kind == "failed_us":
            served[kernel] = before + Served(failed_ns=int(value) * NS_PER_US)
    return served
