"""Jobs whose operands and products come and go in one step of the ledger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.ledger.acceptance import Acceptance
from jobs.matrices.index import MIN_CHARGE_BYTES
from jobs.models import ANONYMOUS
from jobs.redis.embedded import EmbeddedServer
from tests.integration.matrices.needs import WEEK_S, Needs, needs_in


@pytest.fixture(params=["file", "redis"])
def needs(request: pytest.FixtureRequest, valkey: EmbeddedServer, key_prefix: str) -> Iterator[Needs]:
    with needs_in(request.param, valkey, key_prefix) as needs:
        yield needs


def test_jobs_that_end_in_one_step_leave_their_room_to_one_another(needs: Needs) -> None:
    """Three products after six operands: one more than that has room, none of them beside all the operands."""
    jobs, operands = zip(*(needs.submit_inline(8, 8) for _ in range(3)), strict=True)
    needs.upload("bob", operands[1][0])  # another owner's as well
    needs.assert_books_agree()
    accepted = Acceptance.ACCEPTED
    assert needs.end_together(*jobs) == [accepted, accepted | Acceptance.SHARED, accepted]
    needs.assert_books_agree()
    assert needs.index.used_bytes(ANONYMOUS) == 3 * MIN_CHARGE_BYTES
    assert needs.is_there(operands[1][0], "bob") and not needs.is_there(operands[1][0])
    needs.pass_time(WEEK_S)
    assert not needs.left()


def test_products_of_one_step_are_within_the_bounds_together(needs: Needs) -> None:
    jobs = [needs.submit() for _ in range(9)]
    assert needs.end_together(*jobs) == [Acceptance.ACCEPTED] * 7 + [Acceptance.NO_ROOM] * 2
    assert needs.index.used_bytes(ANONYMOUS) == 7 * MIN_CHARGE_BYTES
    needs.assert_books_agree()
