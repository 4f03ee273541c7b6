"""What callers hand back to the ledger, cursors and event ids: ours go round, and nothing else breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidRequest
from jobs.ledger.codec import cursor_after, cursor_seq, event_place, row_from_hash
from jobs.stored import RecordUnreadable
from tests.fuzz.targets.records import FIELDS


@pytest.mark.parametrize("number", ["-1", "9" * 18, "9" * 400])
@pytest.mark.parametrize("field", ["created", "timeout", "seq"])
def test_a_number_that_no_script_writes_makes_a_record_unreadable(field: str, number: str) -> None:
    flat = [part.encode() for name, value in (FIELDS | {"request": "{}"}).items() for part in (name, value)]
    assert row_from_hash(flat).job(None).record.id
    flat[flat.index(field.encode()) + 1] = number.encode()
    with pytest.raises(RecordUnreadable):
        row_from_hash(flat)


@given(st.integers(0, 10**15 - 1))
def test_a_cursor_goes_round(seq: int) -> None:
    assert cursor_seq(cursor_after(seq)) == seq


@given(st.text())
def test_no_other_cursor_breaks_it(text: str) -> None:
    try:
        assert cursor_seq(text) >= 0
    except InvalidRequest as error:
        assert error.field == "cursor"


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_an_event_id_goes_round(milliseconds: int, number: int) -> None:
    assert event_place(f"{milliseconds}-{number}") == (milliseconds, number)
    assert event_place(str(milliseconds)) == (milliseconds, 0)


@given(st.integers(2**64, 10**25))
def test_an_event_id_fits_redis(number: int) -> None:
    for text in (f"{number}-0", f"0-{number}", str(number)):
        with pytest.raises(InvalidRequest):
            event_place(text)


@given(st.text())
def test_no_other_event_id_breaks_it(text: str) -> None:
    try:
        assert all(0 <= part < 2**64 for part in event_place(text))
    except InvalidRequest as error:
        assert error.field == "Last-Event-ID"
