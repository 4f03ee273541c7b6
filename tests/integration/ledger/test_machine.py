"""Random lives of random jobs, step by step on both ledgers: they must agree on all, and keep their promises."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from jobs.errors import DeviceFault, MatmulError, OperandMissing
from jobs.ledger.codec import job_error
from jobs.ledger.interface import IdempotencyKey, JobFilter, JobMessage
from jobs.ledger.submission import BESIDE
from jobs.models import Job, JobMatrices, Progress, new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import REDRIVABLE, TERMINAL, JobState
from tests.support.ledger.ledgers import Bench, assert_books_agree, memory_bench, new_job, outcome, redis_bench
from tests.support.ledger.lives import (
    AT_RANDOM,
    FILTERS,
    KEYS,
    OWNERS,
    QUEUES,
    SETTINGS,
    anyone,
    in_record,
    is_waiting,
    owners,
    pick,
    seconds,
    stray,
)


class TwoLedgers(RuleBasedStateMachine):
    """Every rule is played on both. What one answers or refuses the other must, to the letter."""

    def __init__(self, memory: Bench, redis: Bench) -> None:
        super().__init__()
        self.memory, self.redis = memory, redis
        self.ids: list[str] = []
        self.messages: list[JobMessage] = []
        self.claims: Counter[tuple[str, int]] = Counter()
        self.workers = 0
        self.last_claim: tuple[JobMessage, dict[str, Any]] | None = None
        self.ends: dict[str, Job] = {}  # jobs at their end, as they were when they got there

    # ---- playing a step on both ----
    def both(self, verb: str, *args: Any, **options: Any) -> Any:
        results = []
        for bench in (self.memory, self.redis):
            try:
                results.append(getattr(bench.ledger, verb)(*args, **options))
            except MatmulError as error:
                results.append((type(error), error.detail))
        assert results[0] == results[1], (verb, args, options)
        self._note(results[0])
        return results[0]

    def _note(self, result: Any) -> None:
        """Remembers messages that were sent: they may arrive at any time later."""
        for part in result if isinstance(result, tuple) else (result, getattr(result, "message", None)):
            if isinstance(part, JobMessage):
                self.messages.append(part)

    def all_jobs(self, state: JobState | None = None) -> list[Job]:
        return [job for owner in OWNERS for job in self.memory.all_jobs(JobFilter(owner=owner, state=state), limit=100)]

    def aimed(self, which: int, stray: int = 0, *states: JobState) -> tuple[str, int]:
        """A job and an attempt: mostly one in these states, and its present attempt."""
        jobs = self.all_jobs()
        apt = [job for job in jobs if job.record.state in states]
        among = apt if apt and which != AT_RANDOM else jobs
        if not among:
            return "job_unknown", 1
        job = among[which % len(among)]
        return job.id, job.record.attempt + stray

    # ---- the service ----
    @rule(
        owner=owners,
        queue=st.sampled_from(QUEUES),
        kernel=st.sampled_from(["auto", "naive"]),
        tight=st.booleans(),
        matrices=in_record,
        batch=st.sampled_from(["", "one", BESIDE]),
    )
    def submit(self, owner: str, queue: str, kernel: str, tight: bool, matrices: JobMatrices, batch: str) -> None:
        new = new_job(owner, kernel=kernel, queue=queue, timeout_s=4.0, matrices=matrices, batch=batch)
        self.both("submit", new, max_queued=4 if tight else 99, max_queued_per_owner=2 if tight else 99)
        self.ids.append(new.id)

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

    @rule(which=pick, owner=anyone)
    def cancel(self, which: int, owner: str | None) -> None:
        self.both("cancel", self.aimed(which, 0, JobState.QUEUED, JobState.RUNNING)[0], owner=owner)

    @rule(which=pick, owner=anyone)
    def redrive(self, which: int, owner: str | None) -> None:
        result = self.both("redrive", self.aimed(which, 0, *REDRIVABLE)[0], owner=owner)
        if isinstance(result[0], Job):
            self.ends.pop(result[0].id)

    @rule(which=pick, owner=anyone)
    def delete(self, which: int, owner: str | None) -> None:
        self.both("delete", self.aimed(which, 0, *TERMINAL)[0], owner=owner)

    # ---- the worker ----
    @precondition(lambda self: self.messages)
    @rule(which=pick, lease_s=seconds, max_jobs=st.sampled_from([1, 2, 9]), max_beside=st.integers(1, 3))
    def a_message_arrives(self, which: int, lease_s: float, max_jobs: int, max_beside: int) -> None:
        message = self.messages[-1 - which % len(self.messages)]
        self.workers += 1
        about = {"worker": f"w{self.workers}", "lease_s": lease_s, "max_jobs": max_jobs, "max_beside": max_beside}
        claimed = self.both("claim_batch", message.job_id, message.attempt, **about)
        for each in claimed:
            self.claims[each.job.id, each.attempt] += 1
        self.last_claim = message, about
        assert self.both("claim_batch", message.job_id, message.attempt, **about) == claimed  # the answer was lost

    @precondition(lambda self: self.last_claim)
    @rule()
    def a_worker_asks_again(self) -> None:
        """It gets what is still its own, and nothing new."""
        assert self.last_claim is not None
        message, about = self.last_claim
        for each in self.both("claim_batch", message.job_id, message.attempt, **about):
            assert self.claims[each.job.id, each.attempt] == 1

    @rule(which=pick, stray=stray, lease_s=seconds)
    def renew(self, which: int, stray: int, lease_s: float) -> None:
        self.both("renew", *self.aimed(which, stray, JobState.RUNNING), lease_s=lease_s)

    @rule(which=pick, stray=stray, done=st.integers(0, 3))
    def progress(self, which: int, stray: int, done: int) -> None:
        self.both(
            "progress", *self.aimed(which, stray, JobState.RUNNING), Progress(done=done, total=3, current="a case")
        )

    @rule(which=pick, stray=stray, product_bytes=st.sampled_from([0, 0, 1, 200]))
    def succeed(self, which: int, stray: int, product_bytes: int) -> None:
        job_id, attempt = self.aimed(which, stray, JobState.RUNNING)
        self.both("succeed", job_id, attempt, outcome(), bytes(product_bytes) or None)

    @rule(which=pick, stray=stray, kind=st.sampled_from([DeviceFault, OperandMissing]), runs=st.integers(1, 3))
    def fail(self, which: int, stray: int, kind: type[DeviceFault | OperandMissing], runs: int) -> None:
        self.both("fail", *self.aimed(which, stray, JobState.RUNNING), job_error(kind), max_attempts=runs)

    # ---- the sweeper, and time ----
    @rule(runs=st.integers(1, 3))
    def take_back(self, runs: int) -> None:
        for job_id, attempt in self.both("expired_leases"):
            assert self.both("take_back", job_id, attempt, max_attempts=runs) is not None

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

    @rule(ttl_s=st.sampled_from([0, 2, 10]))
    def expire(self, ttl_s: int) -> None:
        self.both("expire", job_ttl_s=ttl_s)

    @rule(limit=st.sampled_from([1, 100]))
    def expire_matrices(self, limit: int) -> None:
        self.both("expire_matrices", limit=limit)

    @rule(which=pick, stray=stray, owner=owners)
    def drop_the_product(self, which: int, stray: int, owner: str) -> None:
        job_id, attempt = self.aimed(which, stray, JobState.SUCCEEDED)
        self.both("drop_product", job_id, attempt, owner=owner)

    @rule(which=pick)
    def get_with_its_product(self, which: int) -> None:
        self.both("get", self.aimed(which, 0, JobState.SUCCEEDED)[0], with_product=True)

    @rule(duration_s=seconds)
    def time_passes(self, duration_s: float) -> None:
        for bench in (self.memory, self.redis):
            bench.clock.advance(duration_s)

    # ---- what holds after every step ----
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


def test_both_ledgers_live_the_same_lives(valkey: EmbeddedServer) -> None:
    prefix = new_id("machine") + ":"
    with redis_bench(valkey, prefix) as redis:
        client = redis.clock.client
        assert client is not None

        def fresh() -> TwoLedgers:
            if keys := list(client.scan_iter(f"{prefix}*", count=1000)):
                client.delete(*keys)
            redis.clock.now_us = memory_bench().clock.now_us
            redis.clock.advance(0)
            return TwoLedgers(memory_bench(), redis)

        run_state_machine_as_test(
            cast(type[RuleBasedStateMachine], fresh),  # hypothesis calls it and asks no more
            settings=SETTINGS,
        )
