"""What a device does once before it can be looked at: a GPU compiles kernels, and its driver opens what it keeps."""

from __future__ import annotations

import redis

from tests.chaos import products
from tests.chaos.callers import ASYNC, Caller, Told, job_of
from tests.chaos.stack import ChaosStack
from tests.chaos.verdict.account import wait_for_ends

FIRST = 2_000_000  # numbers beyond those of the run and of its control
STANDSTILL_S = 90.0  # many times what a kernel takes to be compiled


def warm_up(stack: ChaosStack, client: redis.Redis, seed: int) -> tuple[str, ...]:
    """A job of each kind of product, where there is a GPU; their ids. Raises TimeoutError where they do not end."""
    layout = stack.layout
    if layout.device == "cpu":
        return ()
    caller = Caller(0, stack.doors, stack.keys[0], Told(), seed, layout)
    bodies = [products.inline(FIRST), *(products.binary(FIRST, side) for side in products.SIDES.values())]
    bodies += [products.tiled(number, layout.tiling_kernel) for number in (FIRST, FIRST + 1)]
    jobs = [job_of(caller.answered("POST", each.target, {**each.headers, **ASYNC}, each.content)) for each in bodies]
    if unended := wait_for_ends(client, stack.margins, STANDSTILL_S):
        raise TimeoutError(f"{unended}; see {stack.directory}")
    return tuple(jobs)
