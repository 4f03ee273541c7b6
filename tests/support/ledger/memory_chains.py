"""Jobs whose operands are the products of other jobs: the twin of `lua/common_chains.lua`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.errors import OperandMissing
from jobs.ledger.chains import ENDS, operand_failed
from jobs.ledger.codec import JobRow
from jobs.models import JobError
from jobs.states import JobState


@dataclass(slots=True)
class RecordMatrices:
    """Matrices in a job's record, and what it is charged for them."""

    ttl_us: int = 0
    a: bytes | None = None
    b: bytes | None = None
    c: bytes | None = None
    product: bytes | None = None
    charged: int = 0
    until_us: int | None = None  # when they go; None while the job has not ended, or where there are none

    def end(self, product: bytes | None) -> None:
        self.a = self.b = self.c = None
        self.product, self.charged = product, len(product or b"")

    def drop(self) -> None:
        self.a = self.b = self.c = self.product = self.until_us = None
        self.charged = 0


@dataclass(frozen=True, slots=True)
class Source:
    """The job whose product an operand is, and the room that this takes in a record."""

    name: str
    row: JobRow
    room: int


@dataclass
class Chains(ABC):
    """The part of the table that is about them. All dependents are settled at once, however many there are."""

    rows: dict[str, JobRow] = field(default_factory=dict, kw_only=True)  # in order of creation
    matrices: defaultdict[str, RecordMatrices] = field(
        default_factory=lambda: defaultdict(RecordMatrices), kw_only=True
    )

    @abstractmethod
    def finish(self, row: JobRow, state: JobState, **more: Any) -> bool: ...

    @abstractmethod
    def enqueue(self, row: JobRow, **more: Any) -> None: ...

    def read_sources(self, named: Mapping[str, str], owner: str) -> list[Source]:
        """Raises OperandMissing, OperandFailed."""
        sources = []
        for name, job_id in sorted(named.items()):
            row = self.rows.get(job_id)
            if row is None or row.owner != owner:
                raise OperandMissing(field=name)
            if row.state in ENDS:
                raise operand_failed(job_id, ENDS[row.state], field=name)
            room = row.product_bytes
            if row.state is JobState.SUCCEEDED and room:
                room = len(self.matrices[job_id].product or b"")
                if not room:
                    raise OperandMissing(field=name)
            sources.append(Source(name, row, room))
        return sources

    def check_record(self, row: JobRow, sources: list[Source]) -> None:
        """Before a redrive: that the room for products is still kept, and operands are there. Raises OperandMissing."""
        held, to_come = self.matrices[row.id], row.missing()
        gone = [each.name for each in sources if each.room and not held.charged]
        gone += [name for name in row.in_record if name not in to_come and getattr(held, name) is None]
        if gone:
            raise OperandMissing(field=gone[0])

    def wait_for_products(self, row: JobRow, sources: list[Source]) -> bool:
        for each in sources:
            if each.row.state is JobState.SUCCEEDED:
                self._take_product(row, each)
            else:
                row.waits = True
        return row.waits

    def _take_product(self, row: JobRow, source: Source) -> None:
        if product := self.matrices[source.row.id].product:
            held = self.matrices[row.id]
            setattr(held, source.name, product)
            held.charged += len(product) - source.room
        row.attempts[source.name] = source.row.attempt

    def settle_dependents(self, source: JobRow) -> bool:
        """After a job's end. Whether any waited for it."""
        dependents = [row for row in self.rows.values() if row.waits and source.id in row.missing().values()]
        for row in dependents:
            if row.waits:  # one that waits for another of these may have failed with it
                self._settle(row, source)
        return bool(dependents)

    def _settle(self, row: JobRow, source: JobRow) -> None:
        is_gone = source.product_bytes and not self.matrices[source.id].product
        if source.state is not JobState.SUCCEEDED or is_gone:
            error = operand_failed(source.id, ENDS.get(source.state, "was deleted"))
            row.error = JobError(type=error.type, detail=error.detail)
            self.finish(row, JobState.FAILED, error=row.error.model_dump())
            return
        for name, job_id in row.missing().items():
            if job_id == source.id:
                self._take_product(row, Source(name, source, source.product_bytes))
        if not row.missing():
            row.waits = False
            self.enqueue(row)
