"""A step on both ledgers, and what a life remembers of its steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from jobs.errors import MatmulError
from jobs.ledger.interface import JobFilter
from jobs.ledger.messages import JobMessage
from jobs.models import Job
from jobs.states import JobState
from tests.machine.played import Played, has_effect
from tests.support.ledger.ledgers import Bench
from tests.support.ledger.lives import AT_RANDOM, OWNERS


class BothLedgers(RuleBasedStateMachine):
    """Every rule is played on both. What one answers or refuses the other must, to the letter."""

    def __init__(self, memory: Bench, redis: Bench, played: Played) -> None:
        super().__init__()
        self.memory, self.redis, self.played = memory, redis, played
        self.ids: list[str] = []
        self.messages: list[JobMessage] = []
        self.claims: Counter[tuple[str, int]] = Counter()
        self.workers = 0
        self.claimed_by: dict[str, str] = {}  # by job, the worker
        self.made_wrong: dict[str, str] = {}  # the last one that did
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
        self.played.calls[verb, has_effect(results[0])] += 1
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

    def worker_for(self, message: JobMessage, *, again: bool) -> str:
        """A new one; or, for a job that waits, the one that made its product wrong."""
        self.workers += 1
        waits = message.job_id in {job.id for job in self.all_jobs(JobState.QUEUED)}
        worker = self.made_wrong.get(message.job_id) if again and waits else None
        return worker or f"w{self.workers}"
