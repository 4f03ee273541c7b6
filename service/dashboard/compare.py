"""`/ui/compare`: two benchmarks held against each other, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from analysis.compare import VERDICTS, Verdict
from jobs.base import Strict
from jobs.benchmark_spec import BenchmarkSpec
from jobs.ledger import JobFilter
from jobs.models import Job, JobRecord
from service.benchmarks_replies import find_benchmark, results_of
from service.comparison import ComparedCase, ComparisonView, comparison
from service.context import Context, context_of, owner_of
from service.dashboard.render import page
from service.dashboard.results_tables import size_of

LAST, PER_PAGE = 50, 100
JobId = Annotated[str, Field(max_length=100)]

router = APIRouter(include_in_schema=False)


class Pair(Strict):
    """Which two, and which of their cases: the query."""

    before: JobId = ""
    after: JobId = ""
    verdict: Literal["", Verdict] = ""
    number: int = Field(1, alias="page", ge=1, le=10_000)

    def link(self, **changes: Any) -> str:
        kept = self.model_dump(by_alias=True, exclude={"number"})
        return "?" + urlencode({name: value for name, value in (kept | changes).items() if value})


@dataclass(frozen=True, slots=True)
class Compared:
    """What the page shows of a comparison."""

    found: ComparisonView
    before: JobRecord
    after: JobRecord
    cases: Sequence[ComparedCase]  # on this page
    matching: int
    pages: int


@router.get("/ui/compare")
async def compare(request: Request, pair: Annotated[Pair, Query()]) -> Response:
    context = context_of(request)
    return await context.call(_page, request, context, pair)


def _page(request: Request, context: Context, pair: Pair) -> Response:
    """For worker threads. Raises JobNotFound, NotFound, StoreUnavailable."""
    owner = owner_of(request)
    chosen = {field: find_benchmark(context, job_id, owner, field) for field, job_id in _ids(pair)}
    last = context.ledger.list(JobFilter(owner, kind="benchmark"), limit=LAST).jobs
    offered = {job.id: _told(job.record) for job in (*last, *chosen.values())}
    before, after = chosen.get("before"), chosen.get("after")
    return page(
        request,
        "compare.html",
        pair=pair,
        offered=offered,
        verdicts=VERDICTS,
        size_of=size_of,
        told=_told,
        compared=_compared(context, before, after, pair) if before and after else None,
    )


def _ids(pair: Pair) -> list[tuple[str, str]]:
    return [(field, job_id) for field, job_id in (("before", pair.before), ("after", pair.after)) if job_id]


def _told(record: JobRecord) -> str:
    """A benchmark's name in a list."""
    spec = record.request
    assert isinstance(spec, BenchmarkSpec)
    title = spec.title or spec.preset or spec.kind
    return f"{record.created_at:%Y-%m-%d %H:%M} · {title[:60]} · {record.state} · {record.id[:12]}"


def _compared(context: Context, before: Job, after: Job, pair: Pair) -> Compared:
    found = comparison(results_of(context, before), results_of(context, after))
    matching = [case for case in found.cases if pair.verdict in ("", case.verdict)]
    first = (pair.number - 1) * PER_PAGE
    return Compared(
        found=found,
        before=before.record,
        after=after.record,
        cases=matching[first : first + PER_PAGE],
        matching=len(matching),
        pages=max(1, -(-len(matching) // PER_PAGE)),
    )
