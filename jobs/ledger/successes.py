"""Successes of jobs, recorded in Redis: in one step, or in two, between which the worker computes other jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis

from jobs.errors import JobNotFound
from jobs.ledger.acceptance import Acceptance
from jobs.ledger.claims.by_message import JOB_ID
from jobs.ledger.interface import Success
from jobs.ledger.submission import claim_on_product, measured_of
from jobs.matrices.index import Bounds
from jobs.models import BenchmarkOutcome, Outcome
from jobs.redis.connections import Connections
from jobs.redis.scripts import RedisScripts


class SuccessesAhead(ABC):
    """A ledger to which successes can be sent without waiting for its answer."""

    @abstractmethod
    def send_successes(self, done: Sequence[Success]) -> Callable[[], Sequence[Acceptance]]:
        """Begins `Ledger.succeed_all`. Returns a function that waits for the answer, and raises as that does; then it
        may be called again. If no answer comes, the whole step is repeated, which does no harm.
        """


class RedisSuccesses(SuccessesAhead):
    scripts: RedisScripts
    _run: Callable[..., Any]
    _connections: Connections
    _bounds: Bounds

    def succeed_all(self, done: Sequence[Success]) -> Sequence[Acceptance]:
        return [Acceptance(each) for each in self._run("succeed", *self._about(done))]

    def send_successes(self, done: Sequence[Success]) -> Callable[[], Sequence[Acceptance]]:
        sent: list[Callable[[], Any]] = []
        with suppress(redis.RedisError):
            sent.append(self._connections.send(*self.scripts.command("succeed", *self._about(done))))

        def answer() -> Sequence[Acceptance]:
            if sent:
                with suppress(redis.RedisError):  # Redis is away, or does not know the script
                    return [Acceptance(each) for each in sent.pop()()]
            return self.succeed_all(done)

        return answer

    def _about(self, done: Sequence[Success]) -> Sequence[str | bytes | int]:
        flat: list[str | bytes | int] = [self._bounds.all_bytes]
        last: Outcome | BenchmarkOutcome | None = None  # jobs of one launch mostly have one
        for each in done:
            if not JOB_ID.fullmatch(each.job_id):
                raise JobNotFound
            if (outcome := each.outcome) is not last:
                kernel = outcome.kernel if isinstance(outcome, Outcome) else ""
                about, measured = (outcome.model_dump_json(), kernel, outcome.device), measured_of(outcome)
                last = outcome
            flat += [each.job_id, each.attempt, *about, each.product or b""]
            flat += [claim_on_product(each, self._bounds), measured]
        return flat
