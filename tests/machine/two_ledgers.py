"""Random lives of random jobs, step by step on both ledgers: they must agree on all, and keep their promises."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jobs.errors import DeviceFault, JobFailed, OperandMissing, VerificationFailed
from jobs.ledger.codec import job_error
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import ALONE, Beside
from jobs.ledger.submission import BESIDE
from jobs.models import Job, Progress
from jobs.requests.job_matrices import JobMatrices
from jobs.states import REDRIVABLE, TERMINAL, JobState
from tests.machine.both_ledgers import BothLedgers
from tests.machine.played import has_effect, state_of
from tests.support.ledger.ledgers import assert_books_agree, new_job, outcome
from tests.support.ledger.lives import (
    AT_RANDOM,
    FILTERS,
    KEYS,
    QUEUES,
    anyone,
    beside,
    in_record,
    is_waiting,
    owners,
    pick,
    seconds,
    sides,
    stray,
)


class TwoLedgers(BothLedgers):
    """The steps, and what holds after each."""

    # ---- what a life begins with ----
    @initialize(
        owner=owners,
        queue=st.sampled_from(QUEUES),
        matrices=in_record,
        running=st.integers(0, 3),
        queued=st.integers(0, 2),
        waiting=st.integers(0, 2),
        lease_s=seconds,
    )
    def some_jobs(
        self, owner: str, queue: str, matrices: JobMatrices, running: int, queued: int, waiting: int, lease_s: float
    ) -> None:
        """Else most steps of many a life would find none: hypothesis leaves some rules out of each."""
        for _ in range(running):
            self.submit(owner, queue, "auto", False, matrices, "")
            self.a_message_arrives(0, lease_s, 1, ALONE, False)
        for _ in range(queued):
            self.submit(owner, queue, "auto", False, matrices, "")
        for _ in range(waiting if running else 0):
            self.submit_a_dependent(0, 0, False, owner, JobMatrices(), "")

    # ---- the service ----
    @rule(
        owner=owners,
        queue=st.sampled_from(QUEUES),
        kernel=st.sampled_from(["auto", "naive"]),
        tight=st.booleans(),
        matrices=in_record,
        batch=st.sampled_from(["", "one", BESIDE]),
        side=sides,
    )
    def submit(
        self, owner: str, queue: str, kernel: str, tight: bool, matrices: JobMatrices, batch: str, side: int = 8
    ) -> None:
        new = new_job(owner, kernel=kernel, queue=queue, timeout_s=4.0, matrices=matrices, batch=batch, side=side)
        self.both("submit", new, max_queued=4 if tight else 99, max_queued_per_owner=2 if tight else 99)
        self.ids.append(new.id)

    @precondition(lambda self: self.ids)
    @rule(
        which=pick,
        second=pick,
        both=st.booleans(),
        owner=owners,
        matrices=in_record,
        batch=st.sampled_from(["", "one"]),
    )
    def submit_a_dependent(
        self, which: int, second: int, both: bool, owner: str, matrices: JobMatrices, batch: str
    ) -> None:
        """Its operands are products of jobs that mostly have not ended, and mostly are its owner's."""
        jobs = [self.aimed(each, 0, JobState.QUEUED, JobState.RUNNING)[0] for each in (which, second)]
        known = {job.id: job.owner for job in self.all_jobs()}
        owner = known.get(jobs[0], owner) if which != AT_RANDOM else owner
        matrices = matrices.model_copy(update={"a": None, "b": None if both else matrices.b})
        new = new_job(owner, timeout_s=4.0, matrices=matrices, batch=batch, a=jobs[0], b=jobs[1] if both else None)
        self.both("submit", new, max_queued=99, max_queued_per_owner=99)
        self.ids.append(new.id)

    @rule(owner=owners, key=st.sampled_from(KEYS), fingerprint=st.sampled_from(["f", "f", "g"]))
    def submit_with_a_key(self, owner: str, key: str, fingerprint: str) -> None:
        new, idempotency = new_job(owner, timeout_s=4.0), IdempotencyKey(key, fingerprint)
        bound = self.both("bound_job", owner, idempotency)
        result = self.both("submit", new, max_queued=99, max_queued_per_owner=99, idempotency=idempotency)
        if isinstance(bound, str):
            assert (result[0].id, result[1]) == (bound, None)
        elif bound is None:
            assert (result[0].id, result[0].owner) == (new.id, owner)
            self.ids.append(new.id)

    @rule(owner=owners, key=st.sampled_from(KEYS), holder=st.sampled_from(["one", "two"]), release=st.booleans())
    def hold(self, owner: str, key: str, holder: str, release: bool) -> None:
        if release:
            self.both("release_key", owner, key, holder=holder)
        else:
            self.both("hold_key", owner, key, holder=holder, hold_s=3600)

    @precondition(lambda self: self.ids)
    @rule(which=pick, owner=anyone, state=st.sampled_from([JobState.QUEUED, JobState.RUNNING, JobState.RUNNING]))
    def cancel(self, which: int, owner: str | None, state: JobState) -> None:
        job_id = self.aimed(which, 0, state)[0]
        before = next((job for job in self.all_jobs() if job.id == job_id), None)
        cancelled = self.both("cancel", job_id, owner=owner)
        self.played.cancels[state_of(before), has_effect(cancelled)] += 1

    @precondition(lambda self: self.ids)
    @rule(which=pick, owner=anyone)
    def redrive(self, which: int, owner: str | None) -> None:
        result = self.both("redrive", self.aimed(which, 0, *REDRIVABLE)[0], owner=owner)
        if isinstance(result[0], Job):
            self.ends.pop(result[0].id)

    @precondition(lambda self: self.ids)
    @rule(which=pick, owner=anyone)
    def delete(self, which: int, owner: str | None) -> None:
        self.both("delete", self.aimed(which, 0, *TERMINAL)[0], owner=owner)

    # ---- the worker ----
    @precondition(lambda self: self.messages)
    @rule(which=pick, lease_s=seconds, jobs=st.sampled_from([1, 2, 9]), beside=beside, again=st.booleans())
    def a_message_arrives(self, which: int, lease_s: float, jobs: int, beside: Beside, again: bool) -> None:
        """`again`: at the worker that made the job's product wrong, if one did."""
        message = self.messages[-1 - which % len(self.messages)]
        worker = self.worker_for(message, again=again)
        about = {"worker": worker, "lease_s": lease_s, "max_jobs": jobs, "beside": beside}
        claimed = self.both("claim_batch", message.job_id, message.attempt, **about)
        self.played.left_to_others += not claimed and worker == self.made_wrong.get(message.job_id)
        for each in claimed:
            self.claims[each.job.id, each.attempt] += 1
            self.claimed_by[each.job.id] = worker
        self.last_claim = (message, about) if claimed else None  # one that waited for a product may be claimed later
        assert self.both("claim_batch", message.job_id, message.attempt, **about) == claimed  # the answer was lost

    @precondition(lambda self: self.last_claim)
    @rule()
    def a_worker_asks_again(self) -> None:
        """It gets what is still its own, and nothing new."""
        assert self.last_claim is not None
        message, about = self.last_claim
        for each in self.both("claim_batch", message.job_id, message.attempt, **about):
            assert self.claims[each.job.id, each.attempt] == 1

    @precondition(lambda self: self.ids)
    @rule(which=pick, stray=stray, lease_s=seconds)
    def renew(self, which: int, stray: int, lease_s: float) -> None:
        self.both("renew", *self.aimed(which, stray, JobState.RUNNING), lease_s=lease_s)

    @precondition(lambda self: self.ids)
    @rule(which=pick, stray=stray, done=st.integers(0, 3))
    def progress(self, which: int, stray: int, done: int) -> None:
        self.both(
            "progress", *self.aimed(which, stray, JobState.RUNNING), Progress(done=done, total=3, current="a case")
        )

    @precondition(lambda self: self.ids)
    @rule(which=pick, stray=stray, product_bytes=st.sampled_from([1, 200]))
    def succeed(self, which: int, stray: int, product_bytes: int) -> None:
        """With a product where there is room for it in the record."""
        job_id, attempt = self.aimed(which, stray, JobState.RUNNING)
        in_record = job_id in {job.id for job in self.all_jobs() if job.product_in_record}
        self.both("succeed", job_id, attempt, outcome(), bytes(product_bytes) if in_record else None)

    @precondition(lambda self: self.ids)
    @rule(
        which=pick,
        stray=stray,
        kind=st.sampled_from([DeviceFault, OperandMissing, VerificationFailed]),
        runs=st.integers(1, 3),
    )
    def fail(self, which: int, stray: int, kind: type[JobFailed], runs: int) -> None:
        job_id, attempt = self.aimed(which, stray, JobState.RUNNING)
        if self.both("fail", job_id, attempt, job_error(kind), max_attempts=runs) and kind is VerificationFailed:
            self.made_wrong[job_id] = self.claimed_by[job_id]

    # ---- the sweeper, and time ----
    @rule(runs=st.integers(1, 3))
    def take_back(self, runs: int) -> None:
        for job_id, attempt in self.both("expired_leases"):
            assert self.both("take_back", job_id, attempt, max_attempts=runs) is not None

    @precondition(lambda self: self.ids)
    @rule(which=pick, stray=stray)
    def take_back_too_early(self, which: int, stray: int) -> None:
        job_id, attempt = self.aimed(which, stray, JobState.RUNNING)
        expired = (job_id, attempt) in self.both("expired_leases")
        assert (self.both("take_back", job_id, attempt, max_attempts=2) is not None) == expired

    @rule(queue=st.sampled_from(QUEUES), empty=st.booleans(), grace_s=seconds)
    def republish(self, queue: str, empty: bool, grace_s: float) -> None:
        for message in self.both("lost_messages", queue, broker_is_empty=empty, grace_s=grace_s):
            self.both("republish", message)

    @precondition(lambda self: self.messages)
    @rule(which=pick)
    def republish_something_old(self, which: int) -> None:
        self.both("republish", self.messages[-1 - which % len(self.messages)])

    @rule(queue=st.sampled_from(QUEUES), workers=st.integers(1, 3))
    def workers_come_and_go(self, queue: str, workers: int) -> None:
        self.both("refill", {queue: workers})

    @rule(ttl_s=st.sampled_from([0, 2, 10]))
    def expire(self, ttl_s: int) -> None:
        self.both("expire", job_ttl_s=ttl_s)

    @rule(limit=st.sampled_from([1, 100]))
    def expire_matrices(self, limit: int) -> None:
        self.both("expire_matrices", limit=limit)

    @precondition(lambda self: self.ids)
    @rule(which=pick, stray=stray, owner=owners)
    def drop_the_product(self, which: int, stray: int, owner: str) -> None:
        job_id, attempt = self.aimed(which, stray, JobState.SUCCEEDED)
        self.both("drop_product", job_id, attempt, owner=owner)

    @precondition(lambda self: self.ids)
    @rule(which=pick)
    def get_with_its_product(self, which: int) -> None:
        self.both("get", self.aimed(which, 0, JobState.SUCCEEDED)[0], with_product=True)

    @rule(duration_s=seconds)
    def time_passes(self, duration_s: float) -> None:
        for bench in (self.memory, self.redis):
            bench.clock.advance(duration_s)

    # ---- what holds after every step ----
    @invariant()
    def a_look_is_counted(self) -> None:
        self.played.looks += 1

    @invariant()
    def the_books_agree(self) -> None:
        self.both("depths", QUEUES)
        self.both("dead_letters")
        counts = self.both("counts")
        assert counts == {state: len(self.all_jobs(state)) for state in JobState}
        for where in FILTERS:
            listed = self.memory.all_jobs(where, limit=3)
            assert listed == self.redis.all_jobs(where, limit=3), where

    @invariant()
    def events_agree(self) -> None:
        for job_id in self.ids[-3:]:
            told, same = (
                [(event.event, event.data) for event in bench.ledger.events(job_id)]
                for bench in (self.memory, self.redis)
            )
            assert told == same

    @invariant()
    def an_attempt_runs_once_and_the_end_is_the_end(self) -> None:
        assert max(self.claims.values(), default=1) == 1
        for job in self.all_jobs():
            if job.record.state in TERMINAL:
                lasting = job.model_copy(update={"matrices_kept": False})  # they go in time
                assert self.ends.setdefault(job.id, lasting) == lasting
            assert (job.record.timing is not None) == (job.record.state is JobState.SUCCEEDED)

    @invariant()
    def no_job_is_without_a_way_on(self) -> None:
        """A queued job is where lost messages are looked for, a running one where leases are, one that waits for others
        waits for such: none is ever stuck."""
        live = [job for state in (JobState.QUEUED, JobState.RUNNING) for job in self.all_jobs(state)]
        for job in live:
            waits_for = (job.record.progress.current or "").removeprefix("waits for ").split(" and ")
            assert not is_waiting(job) or {*waits_for} <= {each.id for each in live}
        stuck = {job.id: (job.owner, job.queue) for job in live if not is_waiting(job)}
        for bench in (self.memory, self.redis):
            bench.clock.advance(1000)
            waiting = {p.job_id for q in QUEUES for p in bench.ledger.lost_messages(q, broker_is_empty=True, grace_s=0)}
            held = {job_id for job_id, _ in bench.ledger.expired_leases()}
            assert not waiting & held
            behind = stuck.keys() - waiting - held  # others of their owners, which are sent when those leave
            assert waiting | held | behind == stuck.keys()
            assert {stuck[each] for each in behind} <= {stuck[each] for each in waiting}
            bench.clock.advance(-1000)

    def teardown(self) -> None:
        if self.redis.clock.client is not None:
            assert_books_agree(self.redis.clock.client, self.redis.clock.prefix)
