"""The third operand in the ledger: in the record, in the store, and as the product of another job."""

from __future__ import annotations

import pytest

from jobs.errors import OperandMissing, StoreFull
from jobs.ledger.interface import Claimed
from jobs.models import product_id
from jobs.requests.job_matrices import JobMatrices
from tests.support.ledger.chained import PRODUCT, SMALL, operand, submit, succeed
from tests.support.ledger.ledgers import Bench, outcome

OF_C = JobMatrices(a=b"a" * 20, b=b"b" * 30, c=b"c" * 40, product_bytes=len(PRODUCT), ttl_s=60)


def claimed(bench: Bench, job_id: str) -> Claimed:
    found = bench.ledger.claim(job_id, bench.ledger.get(job_id).record.attempt, worker="w", lease_s=6)
    assert found is not None
    return found


def packed(found: Claimed) -> list[bytes | None]:
    return [None if each is None else bytes(each.packed) for each in (found.a, found.b, found.c)]


def test_it_travels_in_the_record_until_the_product_comes(bench: Bench) -> None:
    job_id = submit(bench, matrices=OF_C).job_id
    assert bench.ledger.get(job_id).operands_in_record == "abc"
    assert packed(claimed(bench, job_id)) == [OF_C.a, OF_C.b, OF_C.c]
    assert bench.ledger.succeed(job_id, 1, outcome(), PRODUCT)
    assert bench.ledger.get(job_id, with_product=True).packed_product == PRODUCT


def test_its_bytes_are_charged(bench: Bench) -> None:
    for _ in range(7):  # of 3000 bytes for one owner, 390 each
        submit(bench, matrices=OF_C)
    with pytest.raises(StoreFull):
        submit(bench, matrices=OF_C)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_stored_product_is_known_to_whoever_claims_it(bench: Bench, is_there: bool) -> None:
    first = submit(bench).job_id
    if is_there:
        succeed(bench, first)
    second = submit(bench, c=first)
    if not is_there:
        assert not bench.claim(second)
        assert bench.ledger.get(second.job_id).record.progress.current == f"waits for {first}"
        succeed(bench, first)
    assert operand(bench, second.job_id, "c") == product_id(first, 1)
    found = claimed(bench, second.job_id)
    assert packed(found) == [None, None, None]
    request = found.job.record.operands
    assert [ref.matrix for ref in request] == [None, None, product_id(first, 1)]


@pytest.mark.parametrize("names", ["c", "ac", "bc", "abc"])
def test_small_products_are_copied_into_the_record(bench: Bench, names: str) -> None:
    sources = {name: submit(bench, matrices=SMALL).job_id for name in names}
    message = submit(bench, **sources, matrices=JobMatrices(ttl_s=60))
    for source in sources.values():
        assert not bench.claim(message)
        succeed(bench, source, PRODUCT)
    found = claimed(bench, message.job_id)
    assert packed(found) == [PRODUCT if name in names else None for name in "abc"]
    assert found.job.operands_in_record == names
    assert [bool(ref.matrix) for ref in found.job.record.operands] == [False] * 3


def test_a_failure_of_its_job_and_a_retry(bench: Bench) -> None:
    first = submit(bench).job_id
    second = submit(bench, c=first).job_id
    bench.ledger.cancel(first)
    assert bench.state(second) == "failed"
    bench.ledger.redrive(first)
    bench.ledger.redrive(second)
    assert bench.ledger.get(second).record.progress.current == f"waits for {first}"
    succeed(bench, first)
    assert operand(bench, second, "c") == product_id(first, 2)
    bench.ledger.cancel(second)
    bench.ledger.delete(first)
    bench.ledger.redrive(second)  # its operand is known by now
    with pytest.raises(OperandMissing) as refused:
        submit(bench, c=first)
    assert refused.value.field == "c"
