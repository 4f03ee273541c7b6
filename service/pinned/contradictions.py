"""What records of one file say of each other and of their samples, and cannot: a page would draw one and print the
other, and a ratio would be between two products.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import isclose
from statistics import median

from jobs.benchmarks.findings import samples_name
from jobs.benchmarks.records import CaseRecord, Samples
from jobs.errors import InvalidRequest

SAME = 0.01  # relative: figures may be rounded


def check_consistent(records: Sequence[CaseRecord], samples: Mapping[str, Samples]) -> None:
    """Raises InvalidRequest."""
    measured = {(record.round, record.case): record for record in records}
    seen: set[Hashable] = set()
    for record in records:
        for wrong in _wrong(record, measured.get((record.round, record.baseline or "")), samples):
            raise InvalidRequest(f"The record of case {record.case[:100]!a} cannot be: {wrong}.", field="records")
        case = (record.round, record.kernel, tuple(sorted(record.config.items())), _product(record))
        if case in seen:
            raise InvalidRequest("A case is there twice in one round, under two names.", field="records")
        seen.add(case)


def _wrong(record: CaseRecord, baseline: CaseRecord | None, samples: Mapping[str, Samples]) -> Iterator[str]:
    if baseline is not None and _product(baseline) != _product(record):
        yield "its baseline is of another product"
    if record.kernel_ms is None:
        return
    median_us, spread = record.kernel_ms * 1e3, record.time_us
    if spread is not None:
        if not isclose(spread.median, median_us, rel_tol=SAME):
            yield "its time is not the median of its statistics"
        is_mean = spread.min * (1 - SAME) <= spread.mean <= spread.max * (1 + SAME)
        if not (is_mean and spread.q3 <= spread.p95 <= spread.max):
            yield "its mean or its 95th percentile lies outside of its samples"
    lo_us, hi_us = record.ci95_lo_us or median_us, record.ci95_hi_us or median_us
    if not lo_us * (1 - SAME) <= median_us <= hi_us * (1 + SAME):
        yield "the interval of its median does not enclose it"
    taken = samples.get(samples_name(record.round, record.case), Samples()).time_us
    if taken and not isclose(median(taken), median_us, rel_tol=SAME):
        yield "its time is not the median of its samples"


def _product(record: CaseRecord) -> Hashable:
    return record.dtype, record.m, record.n, record.k, record.batch
