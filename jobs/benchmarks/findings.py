"""A benchmark's measurements as the ledger stores them among the job's findings: their names, and how to read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import structlog
from pydantic import ValidationError

from jobs.base import Strict
from jobs.benchmarks.records import AttemptInfo, CaseRecord, Ceiling, Samples
from jobs.stored import read_known

Model = TypeVar("Model", bound=Strict)

log = structlog.get_logger(__name__)


def attempt_name(attempt: int) -> str:
    return f"attempt:{attempt}"


def record_name(round_number: int, case_id: str) -> str:
    return f"record:{round_number}:{case_id}"


def samples_name(round_number: int, case_id: str) -> str:
    return f"samples:{round_number}:{case_id}"


def ceiling_name(name: str) -> str:
    return f"ceiling:{name}"


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the attempts of one benchmark have found so far."""

    attempts: tuple[AttemptInfo, ...]  # in order
    records: tuple[CaseRecord, ...]  # by round, within it as they are named
    samples: Mapping[tuple[int, str], Samples]  # by round and case
    ceilings: tuple[Ceiling, ...]


def read_findings(kept: Mapping[str, bytes]) -> Findings:
    """Reads findings from the ledger. Findings of another version that cannot be read are left out and logged."""
    attempts = sorted(_read(kept, "attempt:", AttemptInfo), key=lambda found: found[1].attempt)
    records = sorted(_read(kept, "record:", CaseRecord), key=lambda found: (found[1].round, found[0]))
    samples = {place: one for name, one in _read(kept, "samples:", Samples) if (place := _place(name)) is not None}
    ceilings = sorted(_read(kept, "ceiling:", Ceiling), key=lambda found: found[0])
    return Findings(
        attempts=tuple(one for _, one in attempts),
        records=tuple(one for _, one in records),
        samples=samples,
        ceilings=tuple(one for _, one in ceilings),
    )


def in_full(records: Iterable[CaseRecord], rounds: int) -> tuple[CaseRecord, ...]:
    """Drops a tuner's halving rounds (those from `rounds` on) for cases that were also timed in full."""
    records = tuple(records)
    full = {record.case for record in records if record.round < rounds}
    return tuple(record for record in records if record.round < rounds or record.case not in full)


def _read(kept: Mapping[str, bytes], kind: str, model: type[Model]) -> Iterator[tuple[str, Model]]:
    for name, text in kept.items():
        if name.startswith(kind):
            try:
                yield name, read_known(model, text)
            except ValidationError as error:
                log.warning("a finding cannot be read", finding=name, reason=str(error))


def _place(name: str) -> tuple[int, str] | None:
    """The round and case that a name from `samples_name` stands for; None for any other name."""
    found = re.fullmatch(r"samples:(\d{1,9}):([^:]*)", name, re.ASCII)
    return (int(found[1]), found[2]) if found else None
