"""One run: a stack, its control, callers beside faults, and the account of all jobs at the end."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from tests.chaos.callers import Caller, Gate, Told
from tests.chaos.control import Control, run_control
from tests.chaos.driver import Driver
from tests.chaos.faults.processes import wait_until_up
from tests.chaos.layout import APIS, Layout
from tests.chaos.plan import plan
from tests.chaos.stack import MAX_ATTEMPTS, ChaosStack
from tests.chaos.verdict.account import Account, account_for, lives, wait_for_ends
from tests.chaos.verdict.descriptors import held
from tests.chaos.verdict.leaks import left_behind
from tests.chaos.verdict.margins import Margins
from tests.chaos.verdict.taken_back import taken_back
from tests.chaos.verdict.tiles import tiles_of
from tests.chaos.warm_up import warm_up

SHOWN = 20  # lines of each list that a record keeps


@dataclass(frozen=True, slots=True)
class Asked:
    """`call_fault_rate`: the share of Redis calls that never arrive, and of those that get no answer. `other`: a
    checkout of another version, which restarts take turns with. `for_s`: nothing is begun after so long."""

    layout: Layout

    seed: int
    jobs: int
    faults: int
    callers: int
    call_fault_rate: float
    without: tuple[str, ...]
    other: Path | None
    for_s: float


@dataclass
class Outcome:
    """`seconds`: how long each part of the run took."""

    asked: Asked
    control: Control
    account: Account
    told: Told
    driver: Driver
    left: dict[str, list[str]]
    taken_back: dict[str, dict[str, float]]
    calls: dict[str, int]
    margins: Margins
    devices: list[str]
    objects: dict[str, int]  # what passed between hosts and the object store
    tiles: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return (
            self.control.failed_as_it_must
            and not any(self.account.counts.values())
            and not self.told.unexpected
            and not any(self.left.values())
        )

    def as_record(self) -> dict[str, Any]:
        struck = sorted(self.driver.struck, key=lambda each: each.began_at)
        first = struck[0].began_at if struck else 0.0
        account = self.account
        lists = {name: getattr(account, name)[:SHOWN] for name in account.counts}
        return {
            "seed": self.asked.seed,
            "passed": self.passed,
            "cut_short": len(self.told.accepted) < self.asked.jobs,
            "accepted": len(self.told.accepted),
            **account.counts,
            "unexpected_answers": len(self.told.unexpected),
            "left_behind": {kind: len(lines) for kind, lines in self.left.items()},
            "control": self.control.found,
            "faults": len(struck),
            "faults_by_kind": dict(sorted(Counter(each.fault.kind for each in struck).items())),
            "calls": self.calls,
            "paths": dict(sorted(account.paths.items())),
            "attempts": {str(attempt): count for attempt, count in sorted(account.attempts.items())},
            "largest_batch": account.largest_batch,
            "answers_to_try_again": self.told.busy,
            "back_in_the_queue": self.taken_back,
            "seconds": self.seconds,
            "margins": self.margins.as_record(),
            "store": self.asked.layout.store,
            "devices": self.devices,
            **({"objects": self.objects} if self.objects else {}),
            **({"tiles": self.tiles} if self.tiles["products"] else {}),
            "call_fault_rate": self.asked.call_fault_rate,
            "other_version": self.asked.other.name if self.asked.other else None,
            "found": {name: lines for name, lines in (lists | self.left).items() if lines}
            | ({"unexpected": self.told.unexpected[:SHOWN]} if self.told.unexpected else {}),
            "log": [
                f"{each.began_at - first:.1f}+{each.ended_at - each.began_at:.1f} {each.fault.kind}: {each.fault.at}"
                for each in struck
            ],
        }


def run(asked: Asked, directory: Path) -> Outcome:
    """In a directory that is empty. Its logs stay there."""
    clock = _Clock()
    with ChaosStack(directory, asked.layout, seed=asked.seed, call_fault_rate=asked.call_fault_rate) as stack:
        with stack.client() as client:
            clock.lap("start")
            earlier = warm_up(stack, client, asked.seed)
            clock.lap("warm-up")
            control = run_control(stack, client, asked.seed)
            _switch_the_sweeper_on(stack)
            before = {name: held(stack, name) for name in stack.parts}
            clock.lap("control")
        told, driver = _drive(stack, asked)
        clock.lap("faults")
        with stack.client() as client:
            unended = wait_for_ends(client, stack.margins)
            clock.lap("settling")
            account = account_for(stack, client, told, (*earlier, *control.jobs))
            account.stuck += [unended] if unended else []
            found = lives(stack.ledger(client), client, [each.job for each in told.accepted.values()])
            clock.lap("account")
            times = taken_back(found, driver.struck)
            outcome = Outcome(
                asked,
                control,
                account,
                told,
                driver,
                left={},
                taken_back=times,
                calls=_calls(stack),
                margins=stack.margins,
                devices=stack.devices(),
                objects=stack.object_traffic(),
                tiles=tiles_of(account.tiled, found, driver.struck),
            )
            _keep(stack, outcome, client)
            outcome.left = left_behind(stack, client, before)
            stack.margins.note("attempts of a job", max(account.attempts, default=0), MAX_ATTEMPTS)
        clock.lap("leaks")
        outcome.seconds = clock.seconds
        shutil.copy(directory / "redis" / "valkey.log", directory / "valkey.log")
    return outcome


def _switch_the_sweeper_on(stack: ChaosStack) -> None:
    stack.sweeps = True
    for name in APIS:
        stack.parts[name].kill()
        stack.start(name)
    for name in stack.parts:  # a worker that the control killed may still be without the process that computes
        wait_until_up(stack, name)
    stack.wait_until_ready()


def _drive(stack: ChaosStack, asked: Asked) -> tuple[Told, Driver]:
    """Callers and faults, until both are done."""
    told, gate = Told(margins=stack.margins), Gate(asked.jobs, asked.faults)
    driver = Driver(stack, plan(asked.seed, asked.faults, asked.layout, asked.without, asked.other), gate)
    callers = [
        Caller(index, stack.doors, stack.keys[index % len(stack.keys)], told, asked.seed, asked.layout)
        for index in range(asked.callers)
    ]
    threads = [threading.Thread(target=caller.run, args=(gate.number,)) for caller in callers]
    stack.fail_calls(True)
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + asked.for_s
        driver.run(deadline)
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
    finally:
        gate.end()
        for thread in threads:
            thread.join()
    stack.fail_calls(False)
    for name in stack.parts:
        wait_until_up(stack, name)
    return told, driver


def _calls(stack: ChaosStack) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in stack.link.counts().values():
        total.update(counts)
    return dict(total)


def _keep(stack: ChaosStack, outcome: Outcome, client: redis.Redis) -> None:
    """Where something is not as it should be: the jobs' records and events, beside the logs."""
    account, lines = outcome.account, []
    ledger = stack.ledger(client)
    bad: Collection[str] = {
        word for name in account.counts for line in getattr(account, name)[:SHOWN] for word in line.split()
    }
    for job in sorted(word.rstrip(":") for word in bad if word.startswith("job_")):
        lines += [job, repr(client.hgetall(f"matmul:job:{job}")), *map(repr, ledger.events(job)), ""]
    if lines:
        (stack.directory / "jobs.txt").write_text("\n".join(lines))


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name], self._at = round(now - self._at, 1), now
