"""Operands that are stored for one job: its scripts make their claims and give them up."""

from __future__ import annotations

import pytest

from jobs.errors import MatrixNotFound, StoreFull
from jobs.ledger.chains import Taken
from jobs.ledger.interface import Success
from jobs.matrices.index import MatrixIndex
from jobs.models import ANONYMOUS, JobMatrices, NewJob, StoredOperand, new_id
from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.ledgers import BOUNDS, new_job, outcome, redis_ledger


def stored_for(*sides: int) -> NewJob:
    stored = tuple(StoredOperand(id=new_id("op"), dtype="float32", shape=(side, side)) for side in sides)
    return new_job(matrices=JobMatrices(stored=stored, ttl_s=60.0))


def test_their_claims_come_and_go_with_the_job(valkey: EmbeddedServer, key_prefix: str) -> None:
    with valkey.client() as client:
        ledger, index = redis_ledger(client, key_prefix), MatrixIndex(client, key_prefix, BOUNDS)
        job = stored_for(8, 4)
        ledger.submit(job, max_queued=9, max_queued_per_owner=9)
        assert index.used_bytes(None) == index.used_bytes(ANONYMOUS) == 4 * (64 + 16)
        a = job.matrices.stored[0]
        info = index.find(a.id, ANONYMOUS)
        assert (info.dtype, info.shape, index.elements(a.id).bytes) == ("float32", (8, 8), 256)
        assert round(info.expires_at - info.created_at, 3) == 60.0
        ledger.claim(job.id, 1, worker="w", lease_s=6)
        done = Success(job.id, 1, outcome(), stored=[operand.id for operand in job.matrices.stored])
        assert ledger.succeed_all([done, done]) == [Taken.YES, Taken.YES]
        assert index.used_bytes(None) == index.used_bytes(ANONYMOUS) == 0
        with pytest.raises(MatrixNotFound):
            index.find(a.id, ANONYMOUS)
        assert index.expire(9) == (0, [])


def test_they_are_within_the_bounds(valkey: EmbeddedServer, key_prefix: str) -> None:
    with valkey.client() as client:
        ledger, index = redis_ledger(client, key_prefix), MatrixIndex(client, key_prefix, BOUNDS)
        for _ in range(2):
            with pytest.raises(StoreFull, match="no room for 3136 more bytes"):
                ledger.submit(stored_for(28), max_queued=9, max_queued_per_owner=9)
        assert index.used_bytes(None) == index.used_bytes(ANONYMOUS) == 0
        assert ledger.queues() == []
        ledger.submit(stored_for(27), max_queued=9, max_queued_per_owner=9)
