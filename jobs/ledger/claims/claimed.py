"""Jobs in replies of lua/claim.lua. Usual jobs (lua/common.lua) come in a short form: id, queue, number, start, what
stays of the job until its end (`unchanging`), request, and both operands, which are None if they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.ledger.codec import READ, JobRow, claimed_row
from jobs.ledger.interface import Claimed
from jobs.matrices.packed import PackedMatrix

ID, ATTEMPT, TRACE = map(READ.index, ("id", "attempt", "trace"))
# The lines of `unchanging`; a later version may add some.
UNCHANGING = (
    *("created", "timeout", "owner", "batch", "came_first", "seq", "held", "ttl", "reply_to", "product_bytes", "kind"),
    "trace",
)
STORED = b"+&"  # it begins with one of these where both operands are stored: for the job alone, or before it


def claimed_job(reply: Sequence[Any], worker: str) -> Claimed:
    """Parses a job, in the short form or this one: the fields that the script read, version, start time, operands, the
    attempt that made c if c is another job's product, and the progress if the job was claimed before. Raises as
    `claimed_row`.
    """
    progress: list[bytes | None] = []
    if _is_short(reply):
        *about, a, b = reply
        row, operands = _usual_row(about), [a, b]
    else:
        values, version, started, operands, c_attempt, *progress = reply
        again = progress[0] if progress else None
        row = claimed_row(values, version=int(version), started_us=int(started), c_attempt=c_attempt, progress=again)
    row.worker = worker
    packed = (None if matrix is None else PackedMatrix(matrix) for matrix in operands)
    return Claimed(row.job(None), row.attempt, *packed, earlier_runs=row.runs - len(progress))  # this one counts then


def identity_of(reply: Sequence[Any]) -> tuple[str, str, str]:
    """Id, attempt and trace of a job."""
    if _is_short(reply):
        return reply[0].decode(), "1", _unchanging(reply[4]).get("trace", b"").decode()
    values = reply[0]
    return values[ID].decode(), values[ATTEMPT].decode(), (values[TRACE] or b"").decode()


def _is_short(reply: Sequence[Any]) -> bool:
    return isinstance(reply[0], bytes)


def _unchanging(text: bytes) -> dict[str, bytes]:
    """By name, without those that are empty. What is said of stored operands beside `created` is left out: the request
    names them."""
    values = text.split(b"\n")
    values[0] = values[0].partition(b" ")[0].lstrip(STORED)
    return {name: value for name, value in zip(UNCHANGING, values, strict=False) if value}


def _usual_row(about: Sequence[bytes]) -> JobRow:
    """The row of a job in the short form: the first attempt of one with both operands in its record, or both stored."""
    job_id, queue, number, started, unchanging, request = about
    in_record = b"" if unchanging[:1] in STORED else b"ab"
    fields = _unchanging(unchanging) | {"id": job_id, "queue": queue, "number": number, "first": number}
    fields |= {"state": b"queued", "attempt": b"1", "runs": b"0", "in_record": in_record, "request": request}
    values = [*map((fields | {"queued": fields["created"]}).get, READ)]
    return claimed_row(values, version=2, started_us=int(started), c_attempt=None, progress=None)
