"""The positive control: what the harness must find, before it is believed that there is nothing to find.

With the sweeper off a killed worker's jobs must be counted as stuck; a product swapped for another's as wrong; a job
that succeeded twice as doubled.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import redis

from tests.chaos import products
from tests.chaos.callers import ASYNC, Accepted, Caller, Told, job_of
from tests.chaos.faults.processes import has_work
from tests.chaos.stack import PREFIX, UNDER_WAY, ChaosStack
from tests.chaos.verdict.account import Account, account_for, unended, wait_for_ends
from tests.chaos.verdict.margins import Margins

FIRST = 1_000_000  # numbers beyond those of the run
SMALL, LARGE, SIDE = 20, 12, 1024
RUNNING_TIMEOUT_S = 120.0
STANDSTILL_S = 5.0  # many times what a job takes


@dataclass(frozen=True, slots=True)
class Control:
    """`jobs`: those that it left behind."""

    found: dict[str, int]
    jobs: tuple[str, ...]

    @property
    def failed_as_it_must(self) -> bool:
        return all(self.found.values())


def run_control(stack: ChaosStack, client: redis.Redis, seed: int) -> Control:
    """On a stack without a sweeper. Raises TimeoutError where no job ever runs."""
    told = Told()
    caller = Caller(0, stack.doors, stack.keys[0], told, seed)
    _submit(caller, told, stack.keys[0], SMALL, LARGE)
    _kill_worker_at_work(stack, client, lambda: _submit(caller, told, stack.keys[0], 0, LARGE))
    wait_for_ends(client, Margins(), STANDSTILL_S)
    before = account_for(stack, client, told)
    done = _succeeded(told, before)
    swap_products(client, done[0].job, done[1].job)
    _succeed_again(client, done[2].job)
    after = account_for(stack, client, told)
    found = {
        "stuck without a sweeper": sum("running" in job for job in after.stuck),
        "wrong by a swapped product": len(after.wrong) - len(before.wrong),
        "doubled by a second end": len(after.doubled) - len(before.doubled),
    }
    return Control(found, tuple(each.job for each in told.accepted.values()))


def _submit(caller: Caller, told: Told, key: str, small: int, large: int) -> None:
    """So many small jobs, which are done soon, and then some that take a moment."""
    headers, operand = {**products.JSON, **ASYNC}, {"random": {"shape": [SIDE, SIDE], "dtype": "float64"}}
    large_body = json.dumps({"a": operand, "b": operand, "kernel": "cpu_blas"}).encode()
    first = FIRST + len(told.accepted)
    for number in range(first, first + small + large):
        body = products.inline(number)
        is_small = number < first + small
        job = job_of(caller.answered("POST", body.target, headers, body.content if is_small else large_body))
        told.accepted[number] = Accepted(number, "inline", job, body.product if is_small else None, key)


def _kill_worker_at_work(stack: ChaosStack, client: redis.Redis, submit_more: Callable[[], None]) -> None:
    """Once it has a large job, and the small ones, which came before, have ended. A busy machine may run all jobs while
    this process waits for its turn: then there are more. It is a CPU worker, whatever else there is."""
    victim, *others = stack.layout.cpu_workers
    began = time.monotonic()
    is_struck = False
    while not is_struck:
        while not (
            client.zcard(f"{PREFIX}finished") >= SMALL and client.zcard(f"{PREFIX}leases") > UNDER_WAY * len(others)
        ):
            if time.monotonic() > began + RUNNING_TIMEOUT_S:
                raise TimeoutError(f"no job ran in {RUNNING_TIMEOUT_S:.0f} s; see {stack.directory}")
            if not any(unended(client)[:2]):
                submit_more()
            time.sleep(0.01)
        stack.parts[victim].kill()
        is_struck = has_work(client, stack.parts[victim].pid)
        stack.start(victim)
    stack.margins.note("control's jobs at work, s", time.monotonic() - began, RUNNING_TIMEOUT_S)


def _succeeded(told: Told, account: Account) -> list[Accepted]:
    stuck = " ".join(account.stuck)
    return [each for each in told.accepted.values() if each.product is not None and each.job not in stuck]


def swap_products(client: redis.Redis, one: str, other: str, prefix: str = PREFIX) -> None:
    """Whole, with its digest, so that nothing but the numbers in it shows whose it is."""
    product = client.hget(f"{prefix}job:{other}:matrices", "c")
    assert product is not None, "the product is not in the record"
    client.hset(f"{prefix}job:{one}:matrices", "c", product)


def _succeed_again(client: redis.Redis, job: str) -> None:
    for state in ("queued", "running", "succeeded", "succeeded"):
        client.xadd(f"{PREFIX}job:{job}:events", {"event": state, "data": json.dumps({"state": state})})
