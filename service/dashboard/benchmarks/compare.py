"""`/ui/compare`: benchmarks and published runs compared with a first one, case by case."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup
from pydantic import Field

from analysis.comparison.by_size import SizeComparison, by_size
from analysis.comparison.compare import VERDICTS, Run, Verdict, run_of, run_of_publication
from jobs.base import Strict
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest
from jobs.ledger.interface import JobFilter
from jobs.models import JobRecord
from kernels.published import PUBLISHED
from kernels.published_records import Publication
from service.benchmarks.comparison import ComparisonView, RunId, comparison_of
from service.benchmarks.replies import find_benchmark, results_of
from service.context import Context, context_of, owner_of
from service.dashboard.charts.ratios import RatioDot, draw, key_of, run_style
from service.dashboard.charts.svg import swatch
from service.dashboard.render import page
from service.dashboard.words import benchmark_title
from service.published import find

LAST, PER_PAGE, MAX_RUNS = 50, 100, 6
CONCLUSIONS: Sequence[Verdict] = ("faster", "slower", "same")
PUBLISHED_PREFIX = "published:"  # prefix of published results; other runs are named by their job id
JobId = Annotated[str, Field(max_length=100)]

router = APIRouter(include_in_schema=False)


class ResultOption(Strict):
    """The query: which runs, and which of their cases."""

    before: JobId = ""
    after: list[JobId] = Field(default_factory=list, max_length=MAX_RUNS + 1)  # a form sends its empty fields as well
    verdict: Literal["", Verdict] = ""
    number: int = Field(1, alias="page", ge=1, le=10_000)

    @property
    def runs(self) -> list[str]:
        """The runs that are compared with the first."""
        return list(dict.fromkeys(filter(None, self.after)))

    def link(self, **changes: Any) -> str:
        kept = {"before": self.before, "after": self.runs, "verdict": self.verdict} | changes
        return "?" + urlencode({name: value for name, value in kept.items() if value}, doseq=True)


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """A chosen run, the user's own or a published one: its name in the address, and in words."""

    id: str
    words: str
    href: str
    run: Run
    is_complete: bool
    is_published: bool


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the runs that are compared with the first."""

    name: str
    chosen: ChosenRun
    found: ComparisonView
    by_size: Sequence[SizeComparison]
    mark: Markup

    @property
    def answer(self) -> str:
        """The conclusion, in a sentence."""
        if not self.found.cases:
            return by_size_in_words(self.by_size)
        return in_words(self.found)


@dataclass(frozen=True, slots=True)
class Compared:
    """The page's view of a comparison."""

    before: ChosenRun
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
    before = _chosen(context, choice.before, owner, "before") if choice.before else None
    after = [_chosen(context, run_id, owner, "after") for run_id in choice.runs]
    last = context.ledger.list(JobFilter(owner, kind="benchmark"), limit=LAST).jobs
    own = {job.id: _run_line(job.record) for job in last}
    mine = {each.id: each.words for each in (before, *after) if each and not each.is_published}
    return page(
        request,
        "compare.html",
        choice=choice,
        most=MAX_RUNS,
        own=own | mine,
        published={f"{PUBLISHED_PREFIX}{name}": _published_line(one) for name, one in PUBLISHED.items()},
        verdicts=VERDICTS,
        compared=_compared(before, after, choice) if before and after else None,
    )


def _chosen(context: Context, run_id: str, owner: str, field: str) -> ChosenRun:
    """Raises JobNotFound, NotFound."""
    if run_id.startswith(PUBLISHED_PREFIX):
        name = run_id.removeprefix(PUBLISHED_PREFIX)
        find(name)
        found = PUBLISHED[name]
        return ChosenRun(
            run_id, _published_line(found), f"/ui/published/{name}", run_of_publication(found), True, is_published=True
        )
    job = find_benchmark(context, run_id, owner, field)
    results = results_of(context, job)
    words, href = _run_line(job.record), f"/ui/benchmarks/{job.id}"
    return ChosenRun(job.id, words, href, run_of(results), results.complete, is_published=False)


def in_words(found: ComparisonView) -> str:
    counts, cases = found.counts, len(found.cases)
    known = [f"{verdict} in {counts[verdict]}" for verdict in CONCLUSIONS if counts[verdict]]
    open_ = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if verdict not in CONCLUSIONS and counts[verdict]]
    if not known:
        return f"No conclusion: of {cases} cases that both have, {', '.join(open_)}."
    rest = f"; {', '.join(open_)}" if open_ else ""
    return f"Of {cases} cases that both have: {', '.join(known)}{rest}."


def by_size_in_words(sizes: Sequence[SizeComparison]) -> str:
    ratios = [each.ratio for each in sizes if each.ratio is not None]
    if not sizes:
        return "No conclusion: they have neither a case nor a size in common."
    if not ratios:
        return f"No conclusion: no case in common, and something disturbed every size that both have ({len(sizes)})."
    ends = " to ".join(dict.fromkeys(f"{ratio:.3g}" for ratio in (min(ratios), max(ratios))))
    return f"No case in common. Size by size, the fastest after is {ends} times as fast as the fastest before."


def _run_line(record: JobRecord) -> str:
    """A benchmark's name in a list."""
    spec = record.request
    assert isinstance(spec, BenchmarkSpec)
    return f"{record.created_at:%Y-%m-%d %H:%M} · {benchmark_title(spec)[:60]} · {record.state} · {record.id[:12]}"


def _published_line(found: Publication) -> str:
    return f"{found.device.name or 'unnamed device'} · {found.title[:80]}"


def _compared(before: ChosenRun, after: Sequence[ChosenRun], choice: ResultOption) -> Compared:
    names = [f"After {place + 1}" for place in range(len(after))] if len(after) > 1 else ["After"]
    runs = [
        ComparedRun(name, each, _view(before, each), _by_size(before, each), swatch(run_style(place)))
        for place, (name, each) in enumerate(zip(names, after, strict=True))
    ]
    whole = _together(runs)
    matching = [dot for dot in whole if choice.verdict in ("", dot.case.verdict)]
    start = (choice.number - 1) * PER_PAGE
    dots = matching[start : start + PER_PAGE]
    return Compared(
        before=before,
        runs=runs,
        dots=dots,
        drawing=draw(dots, [run.name for run in runs]),
        environment=_environment(runs),
        matching=len(matching),
        cases=len(whole),
        pages=max(1, -(-len(matching) // PER_PAGE)),
    )


def _view(before: ChosenRun, after: ChosenRun) -> ComparisonView:
    ids = [RunId(each.id, each.is_complete) for each in (before, after)]
    return comparison_of(before.run, after.run, *ids)


def _by_size(before: ChosenRun, after: ChosenRun) -> Sequence[SizeComparison]:
    return by_size(before.run.measurements, after.run.measurements)


def _together(runs: Sequence[ComparedRun]) -> list[RatioDot]:
    """The cases of all runs; the same case of several runs is grouped."""
    by_case: dict[Hashable, list[RatioDot]] = {}
    for place, run in enumerate(runs):
        for case in run.found.cases:
            by_case.setdefault(key_of(case), []).append(RatioDot(place, case))
    return [dot for dots in by_case.values() for dot in dots]


def _environment(runs: Sequence[ComparedRun]) -> list[list[Any]]:
    """The differences between environments; a run without a difference has the first run's value."""
    rows: dict[str, list[Any]] = {}
    for place, run in enumerate(runs):
        for each in run.found.environment:
            row = rows.setdefault(each.name, [each.name, each.before, *[each.before] * len(runs)])
            row[2 + place] = each.after
    return list(rows.values())
