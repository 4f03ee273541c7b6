"""What became of every accepted job: the service's own listing and products beside what callers were told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import redis

from jobs.ledger.redis import RedisLedger
from jobs.models import JobEvent
from tests.chaos.callers import OCTETS, Accepted, Caller, Refused, Told
from tests.chaos.stack import PREFIX
from tests.chaos.verdict.margins import Margins

END = ("succeeded", "failed", "cancelled")
READERS = 6
STANDSTILL_S = 45.0  # longer than any fault, lease or deadline: what has not moved for so long is stuck
POLL_S = 0.2
PLAIN_VERSION = 3  # queued, running, ended: more were struck by something, or queued twice
Record = dict[str, Any]


class Service(Protocol):
    """As much of a stack as an account asks. `keys`: those whose jobs are listed; `headers`: of each request."""

    @property
    def doors(self) -> tuple[int, ...]: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def operator(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def ledger(self, client: redis.Redis) -> RedisLedger: ...


@dataclass
class Account:
    """Each list names jobs, with what is known of them."""

    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    dishonest: list[str] = field(default_factory=list)  # cancelled though it was not asked, or the other way about
    paths: Counter[str] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    largest_batch: int = 0
    tiled: list[Record] = field(default_factory=list)  # the records of such products

    @property
    def counts(self) -> dict[str, int]:
        names = ("lost", "wrong", "doubled", "stuck", "failed", "dishonest")
        return {name: len(getattr(self, name)) for name in names}


def wait_for_ends(
    client: redis.Redis, margins: Margins, standstill_s: float = STANDSTILL_S, prefix: str = PREFIX
) -> str:
    """Until no job waits or runs, or none has moved for so long. What there is then; empty where all have ended."""
    moved_at = time.monotonic()
    before: tuple[int, ...] = ()
    while (still_s := time.monotonic() - moved_at) < standstill_s:
        margins.note("standstill, s", still_s, standstill_s)
        now = unended(client, prefix)
        if not any(now[:2]):
            return ""
        if now != before:
            before, moved_at = now, time.monotonic()
        time.sleep(POLL_S)
    return "the ledger counts {} jobs that wait and {} that run".format(*before)


def unended(client: redis.Redis, prefix: str = PREFIX) -> tuple[int, int, int]:
    """Jobs that wait and that run, and something that changes with every end."""
    waiting: Any = client.hget(f"{prefix}counts", "waiting")
    running: Any = client.zcard(f"{prefix}leases")
    ended: Any = client.zcard(f"{prefix}finished")
    return int(waiting or 0), int(running), int(ended)


def listing(stack: Service) -> dict[str, Record]:
    """Every job that the service knows, by paging through the list of each key."""
    jobs: dict[str, Record] = {}
    with closing(Caller(0, stack.doors, stack.operator, Told(), 0, headers=stack.headers)) as caller:
        for key in stack.keys:
            cursor: str | None = ""
            while cursor is not None:
                page = caller.answered("GET", f"/v1/jobs?limit=200{cursor}", key=key).json()
                jobs |= {job["id"]: job for job in page["jobs"]}
                cursor = None if page["next"] is None else f"&cursor={page['next']}"
    return jobs


def account_for(
    stack: Service, client: redis.Redis, told: Told, others: Collection[str] = (), *, all_of_it: bool = True
) -> Account:
    """The account of a run whose callers are done. `others`: jobs of other callers."""
    account = Account(wrong=list(told.wrong))
    jobs = listing(stack)
    kept = [each for each in told.accepted.values() if not each.is_deleted]
    for each in told.accepted.values():
        account.paths[each.path] += 1
        _judge(account, each, jobs.get(each.job))
    done = [each for each in kept if each.job in jobs and jobs[each.job]["state"] == "succeeded"]
    account.wrong += wrong_products(stack, [each for each in done if each.product is not None])
    account.doubled += done_twice(stack.ledger(client), client, [each.job for each in done], stack.prefix)
    if all_of_it:
        known = {each.job for each in told.accepted.values()} | set(others)
        account.doubled += [f"{job}: nobody was told of it" for job in jobs if job not in known]
    return account


def _judge(account: Account, accepted: Accepted, job: Record | None) -> None:
    name = f"{accepted.number} ({accepted.path}) {accepted.job}"
    if job is None:
        if not accepted.is_deleted:
            account.lost.append(name)
        return
    account.attempts[job["attempt"]] += 1
    account.largest_batch = max(account.largest_batch, job["batch"] or 0)
    account.tiled += [job] if accepted.path == "tiled" else []
    if job["state"] not in END:
        account.stuck.append(f"{name}: {job['state']}, attempt {job['attempt']}")
    elif job["state"] == "failed":
        account.failed.append(f"{name}: attempt {job['attempt']}, {job['error']}")
    elif job["state"] not in accepted.ends:
        account.dishonest.append(f"{name}: {job['state']}, not {' or '.join(sorted(accepted.ends))}")


def wrong_products(stack: Service, accepted: Sequence[Accepted]) -> list[str]:
    """Those whose product is not there, or not bit for bit what it must be."""

    def read(index: int) -> list[str]:
        with closing(Caller(index, stack.doors, stack.operator, Told(), index, headers=stack.headers)) as caller:
            found = ((each, _wrong(caller, each)) for each in accepted[index::READERS])
            return [f"{each.number} ({each.path}) {each.job}: {reason}" for each, reason in found if reason]

    with ThreadPoolExecutor(READERS) as pool:
        return [wrong for part in pool.map(read, range(READERS)) for wrong in part]


def _wrong(caller: Caller, accepted: Accepted) -> str:
    """Why its product is wrong; empty where it is not."""
    try:
        got = caller.answered("GET", f"/v1/jobs/{accepted.job}/product", OCTETS, key=accepted.key).body
    except Refused as refusal:
        return str(refusal)
    return "" if got == accepted.product else f"{got.hex()[:64]} is not {(accepted.product or b'').hex()[:64]}"


def done_twice(ledger: RedisLedger, client: redis.Redis, jobs: Iterable[str], prefix: str = PREFIX) -> list[str]:
    """Succeeded jobs with any number of successful ends but one."""
    return [job for job, events in lives(ledger, client, jobs, prefix).items() if ends_of(events) != 1]


def lives(
    ledger: RedisLedger, client: redis.Redis, jobs: Iterable[str], prefix: str = PREFIX
) -> Mapping[str, Sequence[JobEvent]]:
    """The events of those that had more than a plain life."""
    struck: list[str] = []
    left = iter(jobs)
    while some := list(islice(left, 1000)):
        with client.pipeline(transaction=False) as pipe:
            for job in some:
                pipe.hget(f"{prefix}job:{job}", "version")
                pipe.exists(f"{prefix}job:{job}:events")
            replies = pipe.execute()
        for job, version, has_stream in zip(some, replies[::2], replies[1::2], strict=True):
            if has_stream or int(version or 0) > PLAIN_VERSION:
                struck.append(job)
    return {job: ledger.events(job) for job in struck}


def ends_of(events: Sequence[JobEvent]) -> int:
    return sum(event.event == "succeeded" for event in events)
