"""The end of a job, as published by the script that ends it to the service process whose caller waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.ledger.codec import JobRow
from jobs.ledger.fields import error_of, outcome_of
from jobs.models import Job
from jobs.requests.operands import OPERANDS
from jobs.states import JobState


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What changed at the end of a product's job, sent to the service process whose caller waits."""

    job_id: str
    # state, attempt, version; times: queued, started ('' where it never was), finished; and of each operand the attempt
    # that made it, '' where it is no job's product; a newer version may add to it
    head: Sequence[str]
    outcome: bytes  # JSON, as is the error; empty for none
    error: bytes
    product: bytes  # what of it is in the record

    def of_row(self, row: JobRow) -> Job:
        """The job as it is now. `row` is what was recorded of it, which is brought up to date."""
        state, attempt, version, queued, started, finished, *products = self.head
        row.state, row.attempt, row.version = JobState(state), int(attempt), int(version)
        row.queued_us, row.started_us, row.finished_us = int(queued), int(started or 0) or None, int(finished)
        row.waits = row.unserved = False
        row.attempts = {name: int(made) for name, made in zip(OPERANDS, products, strict=False) if made}
        row.outcome = outcome_of(row.kind, self.outcome or None)
        row.error = error_of(self.error) if row.state is JobState.FAILED else None
        return row.job(None, packed_product=self.product or None)


def ends_from_answers(data: bytes) -> list[JobEnd]:
    """Parses what `answer` in lua/common.lua publishes. Raises ValueError for anything else."""
    ends = []
    parts = iter(_strings(data))
    for head, outcome, error, product in zip(parts, parts, parts, parts, strict=True):
        job_id, *rest = head.decode().split(" ")
        ends.append(JobEnd(job_id, rest, outcome, error, product))
    return ends


def _strings(data: bytes) -> list[bytes]:
    """Yields the length-prefixed strings."""
    strings: list[bytes] = []
    place = 0
    while place < len(data):
        begin = place + 4
        place = begin + int.from_bytes(data[place:begin], "little")
        strings.append(data[begin:place])
    return strings
