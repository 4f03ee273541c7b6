"""Jobs as most are go straight on through the scripts (`…_usual` in lua/submit, claim and succeed). All that is kept
and answered is the same as without that."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from jobs.ledger import redis as ledger_module
from jobs.ledger.claims.claimed import claimed_job
from jobs.ledger.interface import IdempotencyKey, Success
from jobs.ledger.limits import Limits
from jobs.ledger.moves import Waiting
from jobs.ledger.redis import LUA_DIR, RedisLedger
from jobs.ledger.submission import measured_of
from jobs.matrices.index import Bounds
from jobs.models import ANONYMOUS, JobError, NewJob
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.ledgers import CLOCK_KEY, CLOCK_LUA, Clock, new_job, outcome, redis_ledger, settings_for

CALLS = {
    "submit": ("(#ARGV == USUAL + 4 and record_one or record_several)(ARGV)", "recorded_already"),
    "claim": ("attempt == '1' and claim_usual(id, worker, lease, max_jobs, beside, limit)", "usual"),
    "succeed": ("(#ARGV == 10 and succeed_one or succeed_usual)(ARGV, at)", "ended"),
}
COUNTED = "counted:"
LIVES, STEPS = 4, 70


class Sides:
    """The same steps on both ledgers: with and without."""

    def __init__(self, usual: RedisLedger, plain: RedisLedger, clocks: list[Clock], client: redis.Redis) -> None:
        self._ledgers, self.clocks, self._client = (usual, plain), clocks, client

    def run(self, step: Callable[[RedisLedger], Any]) -> Any:
        usual, plain = (_as_text(step(ledger)) for ledger in self._ledgers)
        assert usual == plain
        kept = [self._kept(clock.prefix) for clock in self.clocks]
        differing = [name for name in {*kept[0], *kept[1]} if kept[0].get(name) != kept[1].get(name)]
        assert [(name, *(each.get(name) for each in kept)) for name in differing] == []
        return usual

    def _kept(self, prefix: str) -> dict[str, Any]:
        found: Any = self._client.keys(f"{prefix}*")
        kept = {}
        for key in found:
            name = key.decode().removeprefix(prefix)
            if not name.startswith((COUNTED, CLOCK_KEY, "libraries")):
                kept[name] = self._value(key)
        return {"".join(name.split(prefix)): value for name, value in kept.items()}

    def _value(self, key: bytes) -> Any:
        client: Any = self._client
        match client.type(key):
            case b"hash":
                return client.hgetall(key)
            case b"zset":
                return client.zrange(key, 0, -1, withscores=True)
            case b"list":
                return client.lrange(key, 0, -1)
            case b"stream":
                return [fields for _, fields in client.xrange(key)]
            case _:
                return client.get(key)

    def pause(self, paused: str) -> None:
        for clock in self.clocks:
            self._client.hset(f"{clock.prefix}counts", "paused", paused)

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def went_straight_on(self) -> dict[str, int]:
        return {name: int(self._client.get(f"{self.clocks[0].prefix}{COUNTED}{name}") or 0) for name in CALLS}


@pytest.fixture
def sides(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    with ExitStack() as exits:
        ledgers = [
            exits.enter_context(_ledger(valkey, f"{key_prefix}{side}:", _lua(tmp_path / side, side), monkeypatch))
            for side in ("usual", "plain")
        ]
        client = exits.enter_context(valkey.client())
        clocks = [Clock(client=client, prefix=f"{key_prefix}{side}:") for side in ("usual", "plain")]
        yield Sides(ledgers[0], ledgers[1], clocks, client)


def _lua(directory: Path, side: str) -> Path:
    """The scripts: counting what goes straight on, or with nothing that does."""
    shutil.copytree(LUA_DIR, directory)
    for name, (called, taken) in CALLS.items():
        path = directory / f"{name}.lua"
        text = path.read_text()
        assert text.count(f" = {called}\n  if {taken} then\n") == 1
        count = f"\n    redis.call('INCR', prefix .. '{COUNTED}{name}')"
        called, to = (f"if {taken} then", f"if {taken} then{count}") if side == "usual" else (f" = {called}", " = nil")
        path.write_text(text.replace(called, to))
    return directory


@contextmanager
def _ledger(server: EmbeddedServer, prefix: str, lua: Path, patch: pytest.MonkeyPatch) -> Iterator[RedisLedger]:
    patch.setattr(ledger_module, "LUA_DIR", lua)
    with connect(settings_for(server, prefix)) as client:
        bounds, ended = Bounds(60_000, 40_000), Limits(30, 20)
        yield redis_ledger(client, prefix, bounds=bounds, clock=CLOCK_LUA, max_ended=ended)


def _as_text(reply: Any) -> Any:
    """Numbers may be written either way."""
    if isinstance(reply, list) and reply[:1] == [b"bound"]:  # fields of a hash have no order
        return [b"bound", dict(zip(reply[1][::2], reply[1][1::2], strict=True)), reply[2]]
    if isinstance(reply, list):
        return [_as_text(each) for each in reply]
    return str(reply).encode() if isinstance(reply, int) and not isinstance(reply, bool) else reply


class Life:
    """A random one, of which the jobs are mostly as most are."""

    def __init__(self, sides: Sides, seed: int) -> None:
        self.sides, self.random = sides, random.Random(seed)
        self.jobs: list[NewJob] = []
        self.running: list[tuple[str, int]] = []
        self.claimed: set[str] = set()

    def _new(self, owner: str) -> NewJob:
        odd = self.random.random() < 0.15
        owner = self.random.choice([ANONYMOUS, "alice"]) if odd else owner
        matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
        if odd and self.random.random() < 0.3:
            matrices = matrices.model_copy(update={"b": None}) if self.random.random() < 0.5 else JobMatrices()
        batch = self.random.choice(["small", "other", ""]) if odd else "small"
        about = {"trace": self.random.choice(["", "00-1-2-01"]), "reply_to": self.random.choice(["", "p1", "p1", "p2"])}
        return new_job(owner, matrices=matrices, batch=batch).model_copy(update=about)

    def submit(self) -> None:
        owner = self.random.choice([ANONYMOUS, ANONYMOUS, ANONYMOUS, "alice"])
        jobs = [self._new(owner) for _ in range(self.random.choice([1, 2, 3, 4]))]
        if self.jobs and self.random.random() < 0.2:  # sent again, or twice
            jobs.append(self.random.choice([*self.jobs[-3:], *jobs]))
        key = IdempotencyKey("k", "f") if self.random.random() < 0.05 else None
        waiting = Limits(self.random.choice([12, 99, 99]), 99)

        def joined(ledger: RedisLedger) -> Any:
            each = [ledger._submission(job, waiting, key) for job in jobs]
            return ledger._run("submit", *(part for one in each for part in one[:-2]), *each[0][-2:])

        self.sides.run(joined)
        self.jobs += jobs

    def claim(self) -> None:
        self.sides.pause(self.random.choice("0000000001"))
        waiting = [job for job in self.jobs if job.id not in self.claimed]
        job, most = self.random.choice(waiting[:4] or self.jobs), self.random.choice([1, 4])
        beside = self.random.choice(["small", *["beside"] * 4])
        about = ("w", 6_000_000, most, 2, beside, 0, 0, "", 0)

        def claimed_by(ledger: RedisLedger) -> Any:
            return [claimed_job(each, "w") for each in ledger._run("claim", job.id, 1, *about, *ledger._messages)]

        claimed = self.sides.run(claimed_by)
        self.running += [(each.job.id, each.attempt) for each in claimed]
        self.claimed |= {job.id, *(job_id for job_id, _ in self.running)}

    def succeed(self) -> None:
        most = self.random.choice([1, 3])
        done = [(job_id, attempt) for job_id, attempt in self.running if self.random.random() < 0.8][:most]
        if not done:
            return
        sizes = [self.random.choice([80, 80, 80, 200]) for _ in done]
        about = outcome()
        ends = [Success(*each, about, b"p" * size) for each, size in zip(done, sizes, strict=True)]
        if self.random.random() < 0.2:
            ends.append(ends[0])

        def ended(ledger: RedisLedger) -> Any:
            flat: list[str | bytes | int] = []
            for end in ends:
                flat += [end.job_id, end.attempt, about.model_dump_json(), about.kernel, about.device]
                flat += [end.product or b"", "", measured_of(about)]
            return ledger._run("succeed", ledger._bounds.all_bytes, *flat)

        self.sides.run(ended)
        self.running = [each for each in self.running if each not in done or self.random.random() < 0.1]

    def other(self) -> None:
        job = self.random.choice(self.jobs)
        error = JobError(type="device_fault", detail="The device failed.")
        if self.running and self.random.random() < 0.5:
            job_id, attempt = self.random.choice(self.running)
            self.sides.run(lambda ledger: str(ledger.fail(job_id, attempt, error, max_attempts=2)) and None)
        else:
            self.sides.run(lambda ledger: ledger._run("cancel", job.id, "", *ledger._messages)[0])
        self.sides.advance(self.random.choice([0.0, 0.25]))


@pytest.mark.parametrize("seed", range(LIVES))
def test_all_is_the_same_as_without(sides: Sides, seed: int) -> None:
    life = Life(sides, seed)
    life.submit()
    for _ in range(STEPS):
        step = life.random.choices([life.submit, life.claim, life.succeed, life.other], [5, 5, 4, 1])[0]
        step()
    assert all(count >= 1 for count in sides.went_straight_on().values()), sides.went_straight_on()


def _moved(job: Waiting, source: str, target: str, ledger: RedisLedger) -> str:
    return str(ledger.moves.move(job, source=source, target=target))


@pytest.mark.parametrize("moves", [["gpu"], ["gpu", "cpu"]])
def test_a_job_that_came_into_an_empty_queue_is_in_no_set_of_its_batch_unless_it_was_moved(
    sides: Sides, moves: list[str]
) -> None:
    """Its record says where it came first, which no longer holds then. What stays in a set would be claimed again."""
    matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
    job = new_job(matrices=matrices, batch="small")

    def sets(ledger: RedisLedger) -> Any:
        return [ledger._client.zrange(f"{ledger._prefix}batch:{queue}:small", 0, -1) for queue in ("cpu", "gpu")]

    sides.run(lambda ledger: ledger._run("submit", *ledger._submission(job, Limits(9, 9), None)))
    assert sides.run(sets) == [[], []]
    for source, target in pairwise([job.queue, *moves]):
        waiting = Waiting(job.id, 1, b"")
        assert sides.run(partial(_moved, waiting, source, target)) == "True"
        assert sides.run(sets) == [[job.id.encode()] if target == queue else [] for queue in ("cpu", "gpu")]
    claim = "w", 6_000_000, 1, 2, "beside", 0, 0, "", 0
    assert sides.run(lambda ledger: len(ledger._run("claim", job.id, 1, *claim, *ledger._messages))) == b"1"
    assert sides.run(sets) == [[], []]
    assert sides.went_straight_on() == {"submit": 1, "claim": 1, "succeed": 0}


def test_sums_that_another_version_wrote_are_added_to(sides: Sides) -> None:
    """A library keeps the last ones that it wrote, and need not be the only one that writes them."""
    matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
    about = outcome()
    field = f"products:{about.kernel}"

    def lived(ledger: RedisLedger) -> int:
        job = jobs[-1]
        ledger._run("submit", *ledger._submission(job, Limits(9, 9), None))
        assert ledger.claim(job.id, 1, worker="w", lease_s=60)
        assert ledger.succeed_all([Success(job.id, 1, about, b"p" * 80)]) == [1]
        sums: Any = ledger._client.hget(f"{ledger._prefix}counts", field)
        return int(sums.split()[0])

    def written(ledger: RedisLedger) -> int:
        return int(ledger._client.hset(f"{ledger._prefix}counts", field, "40 40 0 0 0 0 0"))

    jobs: list[NewJob] = []
    for step, sum_then in ((lived, 1), (lived, 2), (written, 0), (lived, 41)):
        jobs.append(new_job(matrices=matrices, batch="small"))
        assert sides.run(step) == str(sum_then).encode()


def test_a_job_of_whose_batch_no_other_waits_is_claimed_alone(sides: Sides) -> None:
    matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
    jobs = [new_job(matrices=matrices, batch=batch) for batch in ("small", "other", "small")]

    def submitted(job: NewJob, ledger: RedisLedger) -> Any:
        return ledger._run("submit", *ledger._submission(job, Limits(9, 9), None))

    def claimed(job: NewJob, ledger: RedisLedger) -> Any:
        about = "w", 6_000_000, 4, 2, "beside", 0, 0, "", 0
        return [claimed_job(each, "w") for each in ledger._run("claim", job.id, 1, *about, *ledger._messages)]

    for job in jobs[:2]:
        sides.run(partial(submitted, job))
    assert [each.job.id for each in sides.run(partial(claimed, jobs[0]))] == [jobs[0].id]
    sides.run(partial(submitted, jobs[2]))
    assert [each.job.id for each in sides.run(partial(claimed, jobs[2]))] == [jobs[2].id]
    assert sides.went_straight_on() == {"submit": 3, "claim": 2, "succeed": 0}
