"""Claims of jobs in Redis: for a message that a worker has, or for the next one that comes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import redis

from jobs.ledger.claims.refusals import Refusals
from jobs.ledger.interface import Claimed
from jobs.ledger.limits import ALONE, Beside
from jobs.ledger.submission import BESIDE
from jobs.redis.client import translated
from jobs.redis.clock import microseconds
from jobs.redis.connections import Connections
from jobs.redis.scripts import RedisScripts

JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)  # no ':', so that no id names another kind of key


class ClaimTerms(NamedTuple):
    """As of `Ledger.claim_batch`."""

    worker: str
    lease_s: float
    max_jobs: int
    beside: Beside = ALONE


class NextMessage(NamedTuple):
    """A message of the broker's list, if one came. `claimed`: what was claimed for it; None where nothing was asked.
    `others_wait`: whether there are messages of other queues, where that was asked."""

    raw: bytes | None
    claimed: Sequence[Claimed] | None = None
    others_wait: bool = False


class NextClaims(ABC):
    """A ledger in which the next message can be waited for and its job be claimed in one step."""

    @abstractmethod
    def claim_next(
        self, queue: str, terms: ClaimTerms, *, wait_s: float, max_timeout_s: float, others: Sequence[str] = ()
    ) -> NextMessage:
        """The next message of a queue, taken off its list, and its job claimed as by `claim_batch`. Only of a first
        attempt whose time limit is at most `max_timeout_s`: of any other the message alone. Looks into the `others`,
        which are queues, in the same round trip.

        Raises redis.RedisError. Then a job may be claimed all the same: `claimed_by` tells. Raises ResponseError where
        this Redis or this user may not do it."""

    @abstractmethod
    def claimed_by(self, worker: str) -> Sequence[tuple[str, int]]:
        """Running jobs of this worker, and their attempts. Raises StoreUnavailable."""


def look_into(lists: str, queues: Sequence[str]) -> list[Sequence[str]]:
    """The command that counts which of these queues have a message; none for no queues."""
    return [("EXISTS", *(lists + queue for queue in queues))] if queues else []


class RedisClaims(NextClaims):
    """`_messages`: what the broker's lists are called, and the form of a message."""

    scripts: RedisScripts
    refusals: Refusals
    _run: Callable[..., Any]
    _client: redis.Redis
    _connections: Connections
    _prefix: str
    _messages: tuple[str, str]

    def claim_batch(
        self, job_id: str, attempt: int, *, worker: str, lease_s: float, max_jobs: int, beside: Beside = ALONE
    ) -> Sequence[Claimed]:
        if not JOB_ID.fullmatch(job_id):
            return []
        terms = ClaimTerms(worker, lease_s, max_jobs, beside)
        return self.refusals.understood(worker, self._run("claim", job_id, attempt, *self._arguments(terms, "", 0.0)))

    def _arguments(self, terms: ClaimTerms, taken: str, max_timeout_s: float) -> Sequence[str | int]:
        worker, lease_s, max_jobs, beside = terms
        of_them = beside.heavy, BESIDE, beside.light, beside.light_extent
        of_message = taken, microseconds(max_timeout_s)
        return worker, microseconds(lease_s), max_jobs, *of_them, *of_message, *self._messages

    def claim_next(
        self, queue: str, terms: ClaimTerms, *, wait_s: float, max_timeout_s: float, others: Sequence[str] = ()
    ) -> NextMessage:
        """Redis carries out the second command in the moment in which a message ends the first one's wait."""
        lists, worker = self._messages[0], terms.worker
        taken = f"{lists}taken:{worker}"
        raw, replies, *waiting = self._connections.ask_each(
            ("BLMOVE", lists + queue, taken, "RIGHT", "RIGHT", wait_s),
            self.scripts.command("claim", "", "", *self._arguments(terms, taken, max_timeout_s)),
            *look_into(lists, others),
        )
        if isinstance(raw, redis.ResponseError):
            raise raw
        is_claimed = isinstance(replies, list)  # not where the function is not known: the usual way loads it
        claimed = self.refusals.understood(worker, replies) if is_claimed and raw is not None else None
        return NextMessage(raw, claimed, waiting not in ([], [0]))

    @translated()
    def claimed_by(self, worker: str) -> Sequence[tuple[str, int]]:
        ids: Any = self._client.zrange(f"{self._prefix}leases", 0, -1)
        pipe = self._client.pipeline(transaction=False)
        for job_id in ids:
            pipe.hmget(f"{self._prefix}job:{job_id.decode()}", ["worker", "state", "attempt"])
        found = zip(ids, pipe.execute(), strict=True)
        is_its_own = [worker.encode(), b"running"]
        return [(job_id.decode(), int(about[2])) for job_id, about in found if about[:2] == is_its_own]
