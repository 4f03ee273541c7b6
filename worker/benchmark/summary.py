"""The summary of a benchmark: counts, and warnings for readers of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from jobs.benchmarks.records import AttemptInfo, BenchmarkSummary, CaseRecord, Ceiling
from kernels.published_records import Status
from worker.benchmark.case_run import product_in_words

DRIFT = 0.02  # relative difference between rounds above which a case has drifted
NAMED = 3  # cases named in a warning; the others are counted

# A case with several rounds counts as the first of these statuses that occurs in any round.
BY_WEIGHT: tuple[Status, ...] = (
    "incorrect",
    "implausible",
    "compile_error",
    "launch_error",
    "oom",
    "timeout",
    "skipped",
    "ok",
)


def summary(records: Iterable[CaseRecord], attempts: Sequence[AttemptInfo]) -> BenchmarkSummary:
    """The summary of all attempts' records."""
    by_case: dict[str, list[CaseRecord]] = {}
    for record in records:
        by_case.setdefault(record.case, []).append(record)
    counted = Counter(_status(each) for each in by_case.values())
    return BenchmarkSummary(
        cases=len(by_case),
        measurements=sum(map(len, by_case.values())),
        by_status={status: counted[status] for status in BY_WEIGHT if counted[status]},
        attempts=len(attempts),
        warnings=tuple(_warnings(by_case, attempts)),
    )


def summary_of_ceilings(ceilings: Sequence[Ceiling], attempts: Sequence[AttemptInfo]) -> BenchmarkSummary:
    """The summary of the last attempt's roofs."""
    counted: Counter[Status] = Counter("skipped" if ceiling.value is None else "ok" for ceiling in ceilings)
    return BenchmarkSummary(
        cases=len(ceilings), measurements=len(ceilings), by_status=dict(counted), attempts=len(attempts)
    )


def _status(records: Sequence[CaseRecord]) -> Status:
    return min((record.status for record in records), key=BY_WEIGHT.index)


def _warnings(by_case: Mapping[str, Sequence[CaseRecord]], attempts: Sequence[AttemptInfo]) -> Iterator[str]:
    records = [record for each in by_case.values() for record in each]
    yield from _of_attempts(records, attempts)
    yield from _of_drift(by_case)
    for many, what in (
        ([record for record in records if record.contended], "taken while another process used the device"),
        ([record for record in records if record.throttled], "taken while heat or a power brake held the clock down"),
    ):
        if many:
            yield f"{_share(many, records)} {what}: {_named(record_label(record) for record in many)}."


def _of_attempts(records: Sequence[CaseRecord], attempts: Sequence[AttemptInfo]) -> Iterator[str]:
    if len(attempts) < 2:
        return
    earlier = [record for record in records if record.attempt != attempts[-1].attempt]
    yield f"It took {len(attempts)} attempts: {_share(earlier, records)} taken by those before the last."
    if len({str(each.device.get("uuid")) for each in attempts}) > 1:
        yield "Its attempts ran on different devices of the same model."


def _share(some: Sequence[CaseRecord], records: Sequence[CaseRecord]) -> str:
    return f"{len(some)} of {len(records)} measurements {'was' if len(some) == 1 else 'were'}"


def _of_drift(by_case: Mapping[str, Sequence[CaseRecord]]) -> Iterator[str]:
    """Cases whose medians differ by more than 2 % between rounds and lie outside each other's interval."""
    drifts = ((_drift_of_rounds(each), record_label(each[0])) for each in by_case.values())
    worst = sorted((found for found in drifts if found[0] > 0), key=lambda found: -found[0])
    if worst:
        count = "1 case" if len(worst) == 1 else f"{len(worst)} cases"
        named = _named(f"{label} by {by:.1%}" for by, label in worst)
        advice = "Try fresh_process: a process for each case."
        yield f"{count} changed between rounds by more than noise explains: {named}. {advice}"


def _drift_of_rounds(records: Sequence[CaseRecord]) -> float:
    return max((drift(one, two) for one, two in combinations(records, 2)), default=0.0)


def drift(one: CaseRecord, two: CaseRecord) -> float:
    """The difference of the medians relative to the faster one; 0 if it is at most 2 %, or explained by noise."""
    if one.time_us is None or two.time_us is None:
        return 0.0
    fast, slow = sorted((one, two), key=lambda record: record.kernel_ms or 0.0)
    if fast.time_us is None or slow.time_us is None or fast.ci95_hi_us is None or slow.ci95_lo_us is None:
        return 0.0
    apart = slow.time_us.median / fast.time_us.median - 1.0
    return apart if apart > DRIFT and fast.ci95_hi_us < slow.ci95_lo_us else 0.0


def _named(labels: Iterable[str]) -> str:
    """The first few, without repetitions, and how many more."""
    distinct = list(dict.fromkeys(labels))
    more = len(distinct) - NAMED
    return ", ".join(distinct[:NAMED]) + (f" and {more} more" if more > 0 else "")


def record_label(record: CaseRecord) -> str:
    """A case in words."""
    return f"{record.kernel} {product_in_words(record)}"
