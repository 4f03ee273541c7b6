"""`/ui/benchmarks/{id}`: a benchmark's results so far, whatever its state."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from analysis.answers.answer import in_words
from analysis.comparison.environment import flat
from analysis.condition import condition
from analysis.results import CaseResult, Results, measurements
from analysis.tables import rows
from kernels.published import PUBLISHED
from kernels.published_records import Publication
from service.benchmarks.replies import find_benchmark, results_of
from service.context import Context, context_of, owner_of
from service.dashboard.charts.roofline import MODELS
from service.dashboard.charts.selection import Charts, ChartView, Text, charts
from service.dashboard.render import page

PER_PAGE = 100

router = APIRouter(include_in_schema=False)


class ResultsPageQuery(ChartView):
    """The query: which results are shown, and how."""

    kernel: Text = ""
    dtype: Text = ""
    status: Text = ""
    sort: Literal["", "size", "gflops", "baseline", "kernel_ms", "error", "worst_row", "spread"] = ""
    number: int = Field(1, alias="page", ge=1, le=10_000)


@dataclass(frozen=True, slots=True)
class Order:
    """The figure by which cases are sorted; cases without it come last."""

    words: str
    figure: Callable[[CaseResult], float | None]
    falls: bool = False


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "size": Order("N or m×n×k", lambda case: case.flops),
        "gflops": Order("GFLOPS", lambda case: case.gflops, falls=True),
        "baseline": Order("Of the baseline", lambda case: _ratio(case), falls=True),
        "kernel_ms": Order("Kernel, ms", lambda case: case.kernel_ms),
        "error": Order("Error", lambda case: case.error_vs_float64, falls=True),
        "worst_row": Order("Worst row", lambda case: case.worst_row_error, falls=True),
        "spread": Order("Spread", lambda case: case.rel_iqr, falls=True),
    }
)


def _ratio(case: CaseResult) -> float | None:
    return case.fraction_of_baseline.value if case.fraction_of_baseline else None


@dataclass(frozen=True, slots=True)
class ResultsView:
    """The page's view of the results."""

    results: Results
    charts: Charts
    cases: Sequence[CaseResult]  # on this page
    matching: int
    pages: int
    environment: Sequence[tuple[str, Any]]
    device: Sequence[tuple[str, Any]]


@router.get("/ui/benchmarks/{job_id}")
async def benchmark(request: Request, job_id: str, view: Annotated[ResultsPageQuery, Query()]) -> Response:
    context = context_of(request)
    return await context.call(_page, request, context, job_id, view)


def _page(request: Request, context: Context, job_id: str, view: ResultsPageQuery) -> Response:
    """For worker threads: a thousand cases take their time. Raises JobNotFound, NotFound, StoreUnavailable."""
    job = find_benchmark(context, job_id, owner_of(request))
    results = results_of(context, job)
    conditions = {case.case: condition(case) for case in results.records}
    return page(
        request,
        "results.html",
        job=job.record,
        view=view,
        shown=_shown(results, view),
        orders=ORDERS,
        in_words=in_words,
        yardstick=yardstick_of(results),
        model_of=model_of,
        conditions=conditions,
        disturbed={case for case, one in conditions.items() if one.kind not in ("clean", "no figure")},
        published=PUBLISHED,
        models=MODELS,
        kernels=_values(view.kernel, (case.kernel for case in results.records)),
        dtypes=_values(view.dtype, (case.dtype for case in results.records)),
        statuses=_values(view.status, (case.status for case in results.records)),
        spec=results.spec.model_dump_json(indent=2, exclude_defaults=True),
    )


def yardstick_of(results: Results) -> Publication:
    """A published run to compare this one with: of the same preset, on the same device if possible; otherwise the one
    with the most usual sizes.
    """
    preset = (results.spec.preset or "").replace("-", "_")
    alike = [one for one in PUBLISHED.values() if one.report is None and one.name.partition("_")[2] == preset]
    same_device = [one for one in alike if one.device.name == results.device.get("name")]
    on_h200 = [one for one in alike if one.name.startswith("h200_")]
    return next(iter((*same_device, *on_h200)), PUBLISHED["h200_twenty_sizes"])


def model_of(device: str | None) -> str:
    """A device's short name: H100 for "NVIDIA H100 80GB HBM3"."""
    return re.sub(r"^NVIDIA | \d+GB.*$", "", device or "other device")


def _values(chosen: str, found: Any) -> list[str]:
    """The values to choose from, including the chosen one."""
    return list(dict.fromkeys([*found, *([chosen] if chosen else [])]))


def _shown(results: Results, view: ResultsPageQuery) -> ResultsView:
    csv = f"/v1/benchmarks/{results.job.id}/results?format=csv"
    matching = _sorted([case for case in results.records if _matches(case, view)], view.sort)
    first = (view.number - 1) * PER_PAGE
    return ResultsView(
        results=results,
        charts=charts(view, measurements(results), rows(results), csv),
        cases=matching[first : first + PER_PAGE],
        matching=len(matching),
        pages=max(1, -(-len(matching) // PER_PAGE)),
        environment=tuple(flat(results.environment)),
        device=tuple(flat(results.device)),
    )


def _matches(case: CaseResult, view: ResultsPageQuery) -> bool:
    wanted = ((view.kernel, case.kernel), (view.dtype, case.dtype), (view.status, case.status))
    return all(not asked or asked == value for asked, value in wanted)


def _sorted(cases: Sequence[CaseResult], by: str) -> Sequence[CaseResult]:
    if by not in ORDERS:
        return cases
    order = ORDERS[by]
    known = [(value, case) for case in cases if (value := order.figure(case)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=order.falls)
    return [*(case for _, case in known), *(case for case in cases if order.figure(case) is None)]
