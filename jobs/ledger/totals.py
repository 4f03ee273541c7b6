"""Totals of jobs since the ledger was created. Each is counted in the same Lua script as the change itself, so that
repetitions, restarts and deleted records do not falsify it.
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

# Reported as 0 from the start: Prometheus would not see a rise from a missing value.
WATCHED = (DeviceFault, NoRoomForProduct, OperandDamaged, TimeLimitExceeded, VerificationFailed, WorkerLost)


@dataclass(frozen=True, slots=True)
class Totals:
    """`ended`: jobs by final state; a job that was retried and ended again counts twice. `attempts_failed`: failed
    attempts by error type, including those after which the job ran again.
    """

    ended: Mapping[str, int]
    attempts_failed: Mapping[str, int]
    dead_lettered: int  # jobs that used up their attempts
    dead: int  # of those, the ones that were neither retried nor deleted


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
    """Totals of the products that one kernel computed; times in nanoseconds, with the names of `Timing`. `failed`
    counts failed products that requested this kernel.
    """

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
    """Totals by kernel; failed products that did not name a kernel are under `auto`. Raises StoreUnavailable."""
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
