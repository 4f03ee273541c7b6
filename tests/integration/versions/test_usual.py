"""Jobs as most are go straight on through the scripts (`…_usual` and the like in lua/submit, claim and succeed). All
that is kept and answered is the same as without that."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from jobs.errors import MatrixNotFound, StoreFull
from jobs.ledger.interface import IdempotencyKey, Success
from jobs.ledger.limits import Limits
from jobs.ledger.queues import QueuedJob
from jobs.ledger.redis import RedisLedger
from jobs.models import ANONYMOUS, JobError, NewJob, new_id
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.both_ways import (
    Sides,
    books_of,
    claimed,
    ended,
    referring_job,
    stored_job,
    stored_success,
    submitted,
    uploaded,
)
from tests.support.ledger.ledgers import new_job, outcome

LIVES, STEPS = 3, 70


class Life:
    """A random one, of which the jobs are mostly as most are. Shares of jobs: whose matrices are stored for them, and
    whose operands were uploaded before."""

    def __init__(self, sides: Sides, seed: int, stored_share: float, referring_share: float = 0.0) -> None:
        self.sides, self.random = sides, random.Random(seed)
        self.stored_share, self.referring_share = stored_share, referring_share
        self.jobs: list[NewJob] = []
        self.running: list[tuple[str, int]] = []
        self.claimed: set[str] = set()
        self.owners: dict[str, str] = {}  # of jobs whose products are to be stored, by the job
        self.kept: list[str] = []  # matrices that may be there
        self.uploads: dict[str, list[str]] = {ANONYMOUS: [], "alice": []}  # the same, by owner

    def _stored(self, owner: str) -> NewJob:
        """Mostly with two operands that are stored for it alone."""
        ids, odd = (new_id("op"), new_id("op")), self.random.random()
        if odd < 0.05:  # both are one
            ids = ids[0], ids[0]
        elif odd < 0.2 and self.kept:  # one is, or was, another job's
            ids = ids[0], self.random.choice(self.kept)
        room, is_turned = self.random.choice([0, 0, 300]), self.random.random() < 0.5
        job = stored_job(*ids, owner=owner, room_bytes=room, is_turned=is_turned, but=self.kept)
        self.kept = [*self.kept[-3:], *(each.id for each in job.matrices.stored)]
        self.owners[job.id] = owner
        return job

    def upload(self, owner: str) -> None:
        upload = new_id("m")
        self.sides.run(partial(_uploaded, upload, owner))
        self.uploads[owner] = [*self.uploads[owner][-1:], upload]

    def _referring(self, owner: str) -> NewJob:
        """Mostly to matrices that are there."""
        odd, ids = self.random.random() < 0.05, self.uploads[owner]
        a, b = (self.random.choice(self.kept if odd and self.kept else ids) for _ in range(2))
        job = referring_job(
            *(a, b),
            owner=owner,
            product_bytes=self.random.choice([0, 0, 90]),
            room_bytes=self.random.choice([0, 0, 300]),
            batch="beside" if self.random.random() < 0.9 else "small",
        )
        if not job.matrices.product_bytes:
            self.owners[job.id] = owner
        return job

    def _new(self, owner: str) -> NewJob:
        odd = self.random.random() < 0.15
        owner = self.random.choice([ANONYMOUS, "alice"]) if odd else owner
        about = {"trace": self.random.choice(["", "00-1-2-01"]), "reply_to": self.random.choice(["", "p1", "p1", "p2"])}
        kind = self.random.random()
        if kind < self.stored_share:
            return self._stored(owner).model_copy(update=about)
        if kind < self.stored_share + self.referring_share and self.uploads[owner]:
            return self._referring(owner).model_copy(update=about)
        matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
        if odd and self.random.random() < 0.3:
            matrices = matrices.model_copy(update={"b": None}) if self.random.random() < 0.5 else JobMatrices()
        batch = self.random.choice(["small", "other", ""]) if odd else "small"
        return new_job(owner, matrices=matrices, batch=batch).model_copy(update=about)

    def submit(self) -> None:
        owner = self.random.choice([ANONYMOUS, ANONYMOUS, ANONYMOUS, "alice"])
        counts = [1, 1, 1, 2] if self.stored_share else [1, 2, 3, 4]  # those with stored matrices go alone
        jobs = [self._new(owner) for _ in range(self.random.choice(counts))]
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
        beside, light = self.random.choice(["small", *["beside"] * 4]), self.random.choice([0, 0, 2])
        taken = self.sides.run(partial(claimed, job, most, beside=beside, light=light))
        self.running += [(each.job.id, each.attempt) for each in taken]
        self.claimed |= {job.id, *(job_id for job_id, _ in self.running)}

    def succeed(self) -> None:
        most = self.random.choice([1, 3])
        done = [(job_id, attempt) for job_id, attempt in self.running if self.random.random() < 0.8][:most]
        if not done:
            return
        sizes = [self.random.choice([80, 80, 80, 200]) for _ in done]
        ends = [self._success(*each, size) for each, size in zip(done, sizes, strict=True)]
        if self.random.random() < 0.2:
            ends.append(ends[0])

        self.sides.run(partial(ended, ends))
        self.running = [each for each in self.running if each not in done or self.random.random() < 0.1]

    def _success(self, job_id: str, attempt: int, size: int) -> Success:
        if job_id in self.owners:
            return stored_success(job_id, attempt, self.owners[job_id])
        return Success(job_id, attempt, outcome(), b"p" * size)

    def other(self) -> None:
        job = self.random.choice(self.jobs)
        error = JobError(type="device_fault", detail="The device failed.")
        if self.running and self.random.random() < 0.5:
            job_id, attempt = self.random.choice(self.running)
            self.sides.run(lambda ledger: str(ledger.fail(job_id, attempt, error, max_attempts=2)) and None)
        else:
            self.sides.run(lambda ledger: ledger._run("cancel", job.id, "", *ledger._messages)[0])
        self.sides.advance(self.random.choice([0.0, 0.25]))

    def of_matrices(self) -> None:
        """One comes, is given up, or is looked at beyond its time, which only some have left."""
        owner = self.random.choice([ANONYMOUS, ANONYMOUS, "alice"])
        match self.random.choice(["upload", "upload", "release", "expire"]):
            case "release" if ids := self.uploads[owner]:
                upload = self.random.choice(ids)
                self.sides.run(lambda ledger: _released(upload, owner, ledger))
            case "expire":
                self.sides.advance(self.random.choice([20.0, 70.0]))
                self.sides.run(lambda ledger: books_of(ledger).expire(100)[0])
            case _:
                self.upload(owner)


def _uploaded(matrix: str, owner: str, ledger: RedisLedger) -> str:
    try:
        uploaded([matrix], owner, ledger)
    except StoreFull:
        return "full"
    return "uploaded"


def _released(matrix: str, owner: str, ledger: RedisLedger) -> str:
    try:
        return str(books_of(ledger).release(matrix, owner))
    except MatrixNotFound:
        return "not found"


SHARES = [(0.0, 0.0), (0.4, 0.0), (0.9, 0.0), (0.0, 0.9), (0.2, 0.6)]


@pytest.mark.parametrize(("stored_share", "referring_share"), SHARES)
@pytest.mark.parametrize("seed", range(LIVES))
def test_all_is_the_same_as_without(sides: Sides, seed: int, stored_share: float, referring_share: float) -> None:
    life = Life(sides, seed, stored_share, referring_share)
    for owner in life.uploads if referring_share else ():
        life.upload(owner)
    life.submit()
    steps = [life.submit, life.claim, life.succeed, life.other, life.of_matrices]
    for _ in range(STEPS):
        step = life.random.choices(steps, [5, 5, 4, 1, 1 if referring_share else 0])[0]
        step()
    went = sides.went_straight_on()
    assert min(went.values()) >= (0 if stored_share else 1) and sum(went.values()) >= 3, went


def _moved(job: QueuedJob, source: str, target: str, ledger: RedisLedger) -> str:
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

    sides.run(partial(submitted, job))
    assert sides.run(sets) == [[], []]
    for source, target in pairwise([job.queue, *moves]):
        waiting = QueuedJob(job.id, 1, b"")
        assert sides.run(partial(_moved, waiting, source, target)) == "True"
        assert sides.run(sets) == [[job.id.encode()] if target == queue else [] for queue in ("cpu", "gpu")]
    assert len(sides.run(partial(claimed, job, 1))) == 1
    assert sides.run(sets) == [[], []]
    assert sides.went_straight_on() == {"submit": 1, "claim": 1, "succeed": 0}


def test_sums_that_another_version_wrote_are_added_to(sides: Sides) -> None:
    """A library keeps the last ones that it wrote, and need not be the only one that writes them."""
    matrices = JobMatrices(a=b"a" * 100, b=b"b" * 100, product_bytes=90, ttl_s=60)
    about = outcome()
    field = f"products:{about.kernel}"

    def lived(ledger: RedisLedger) -> int:
        job = jobs[-1]
        submitted(job, ledger)
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

    for job in jobs[:2]:
        sides.run(partial(submitted, job))
    assert [each.job.id for each in sides.run(partial(claimed, jobs[0], 4))] == [jobs[0].id]
    sides.run(partial(submitted, jobs[2]))
    assert [each.job.id for each in sides.run(partial(claimed, jobs[2], 4))] == [jobs[2].id]
    assert sides.went_straight_on() == {"submit": 3, "claim": 2, "succeed": 0}
