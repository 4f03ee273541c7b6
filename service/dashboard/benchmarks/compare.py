"""`/ui/compare`: benchmarks held against a first one, case by case."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup
from pydantic import Field

from analysis.comparison.compare import VERDICTS, Verdict
from analysis.measurement import size_of
from jobs.base import Strict
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest
from jobs.ledger.interface import JobFilter
from jobs.models import Job, JobRecord
from service.benchmarks.comparison import ComparisonView, comparison
from service.benchmarks.replies import find_benchmark, results_of
from service.context import Context, context_of, owner_of
from service.dashboard.charts.ratios import RatioDot, draw, key_of, run_style
from service.dashboard.charts.svg import swatch
from service.dashboard.render import page

LAST, PER_PAGE, MAX_RUNS = 50, 100, 6
JobId = Annotated[str, Field(max_length=100)]

router = APIRouter(include_in_schema=False)


class ResultOption(Strict):
    """Which runs, and which of their cases: the query."""

    before: JobId = ""
    after: list[JobId] = Field(default_factory=list, max_length=MAX_RUNS + 1)  # a form sends its empty fields as well
    verdict: Literal["", Verdict] = ""
    number: int = Field(1, alias="page", ge=1, le=10_000)

    @property
    def runs(self) -> list[str]:
        """That are held against the first."""
        return list(dict.fromkeys(filter(None, self.after)))

    def link(self, **changes: Any) -> str:
        kept = {"before": self.before, "after": self.runs, "verdict": self.verdict} | changes
        return "?" + urlencode({name: value for name, value in kept.items() if value}, doseq=True)


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of those that are held against the first."""

    name: str
    record: JobRecord
    found: ComparisonView
    mark: Markup


@dataclass(frozen=True, slots=True)
class Compared:
    """What the page shows of a comparison."""

    before: JobRecord
    runs: Sequence[ComparedRun]
    dots: Sequence[RatioDot]  # cases on this page, those of all runs together
    drawing: Markup | None
    environment: Sequence[Sequence[Any]]  # name, in the first run, in the others
    matching: int
    cases: int
    pages: int


@router.get("/ui/compare")
async def compare(request: Request, choice: Annotated[ResultOption, Query()]) -> Response:
    context = context_of(request)
    return await context.call(_page, request, context, choice)


def _page(request: Request, context: Context, choice: ResultOption) -> Response:
    """For worker threads. Raises InvalidRequest, JobNotFound, NotFound, StoreUnavailable."""
    if len(choice.runs) > MAX_RUNS:
        raise InvalidRequest(f"At most {MAX_RUNS} runs are held against the first.", field="after")
    owner = owner_of(request)
    before = find_benchmark(context, choice.before, owner, "before") if choice.before else None
    after = [find_benchmark(context, job_id, owner, "after") for job_id in choice.runs]
    last = context.ledger.list(JobFilter(owner, kind="benchmark"), limit=LAST).jobs
    chosen = [*([before] if before else []), *after]
    return page(
        request,
        "compare.html",
        choice=choice,
        most=MAX_RUNS,
        offered={job.id: _run_line(job.record) for job in (*last, *chosen)},
        verdicts=VERDICTS,
        size_of=size_of,
        described=_run_line,
        compared=_compared(context, before, after, choice) if before and after else None,
    )


def _run_line(record: JobRecord) -> str:
    """A benchmark's name in a list."""
    spec = record.request
    assert isinstance(spec, BenchmarkSpec)
    title = spec.title or spec.preset or spec.kind
    return f"{record.created_at:%Y-%m-%d %H:%M} · {title[:60]} · {record.state} · {record.id[:12]}"


def _compared(context: Context, before: Job, after: Sequence[Job], choice: ResultOption) -> Compared:
    first = results_of(context, before)
    names = [f"After {place + 1}" for place in range(len(after))] if len(after) > 1 else ["After"]
    runs = [
        ComparedRun(name, job.record, comparison(first, results_of(context, job)), swatch(run_style(place)))
        for place, (name, job) in enumerate(zip(names, after, strict=True))
    ]
    whole = _together(runs)
    matching = [dot for dot in whole if choice.verdict in ("", dot.case.verdict)]
    start = (choice.number - 1) * PER_PAGE
    dots = matching[start : start + PER_PAGE]
    return Compared(
        before=before.record,
        runs=runs,
        dots=dots,
        drawing=draw(dots, [run.name for run in runs]),
        environment=_environment(runs),
        matching=len(matching),
        cases=len(whole),
        pages=max(1, -(-len(matching) // PER_PAGE)),
    )


def _together(runs: Sequence[ComparedRun]) -> list[RatioDot]:
    """The cases of all runs, the same case of several runs beside each other."""
    by_case: dict[Hashable, list[RatioDot]] = {}
    for place, run in enumerate(runs):
        for case in run.found.cases:
            by_case.setdefault(key_of(case), []).append(RatioDot(place, case))
    return [dot for dots in by_case.values() for dot in dots]


def _environment(runs: Sequence[ComparedRun]) -> list[list[Any]]:
    """What is not alike in all; a run without a difference has what the first has."""
    rows: dict[str, list[Any]] = {}
    for place, run in enumerate(runs):
        for each in run.found.environment:
            row = rows.setdefault(each.name, [each.name, each.before, *[each.before] * len(runs)])
            row[2 + place] = each.after
    return list(rows.values())
