"""Results, reports and plots of a benchmark as HTTP responses, in the requested format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from analysis.plots.by_name import PLOTS, draw
from analysis.results import Results, collect, to_json
from analysis.tables import to_csv, to_parquet
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest, JobNotFound, NotFound
from jobs.models import Job
from service.benchmarks.comparison import comparison
from service.context import Context, context_of, owner_of
from service.http.conditions import is_not_modified
from service.http.listed import listed
from service.http.negotiation import JSON, choose_type

CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"
HTML, MARKDOWN = "text/html", "text/markdown"
SVG, PNG = "image/svg+xml", "image/png"
# A report and an SVG contain their own styles and pictures; no scripts, and nothing from other origins.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"


@dataclass(frozen=True, slots=True)
class ResultFormat:
    """One format of results."""

    media_type: str
    make: Callable[[Results], bytes]


RESULTS: dict[str, ResultFormat] = {
    "json": ResultFormat(JSON, to_json),
    "csv": ResultFormat(CSV, lambda results: to_csv(results).encode()),
    "parquet": ResultFormat(PARQUET, to_parquet),
}


def plot_forms(name: str) -> Mapping[str, ResultFormat]:
    """The formats of a plot. Raises NotFound for an unknown name. Drawing raises NotFound if there is nothing to draw,
    and ExtraMissing.
    """
    if name not in PLOTS:
        raise NotFound(f"There is no plot of that name; there are: {', '.join(PLOTS)}.", field="name")
    return {
        "svg": ResultFormat(SVG, lambda results: draw(results, name, form="svg")),
        "png": ResultFormat(PNG, lambda results: draw(results, name, form="png")),
    }


def media_types(forms: Mapping[str, ResultFormat]) -> Sequence[str]:
    return [form.media_type for form in forms.values()]


async def results_reply(
    request: Request, job_id: str, what: str, forms: Mapping[str, ResultFormat], asked: str | None
) -> Response:
    """The job's results in the form `asked` for by name or, without that, by Accept.

    Raises NotAcceptable, NotFound, ExtraMissing.
    """
    name = asked or _by_accept(request, forms)
    context = context_of(request)
    job = await context.call(find_benchmark, context, job_id, owner_of(request))
    headers = _headers(f"{job.version}.{what}.{name}.{request.app.version}", forms[name].media_type)
    if is_not_modified(request, headers["etag"]):
        return Response(None, 304, headers)
    make = partial(_made, context, job, forms[name])
    body = await context.renders.body((job.id, job.version, what, name), make, owner=owner_of(request))
    return Response(body, 200, headers, forms[name].media_type)


async def compared(request: Request, job_id: str, other_id: str) -> Response:
    """The job's results compared with another's, as JSON. Raises JobNotFound, NotFound."""
    context, owner = context_of(request), owner_of(request)
    choose_type(listed(request, "accept"), [JSON])
    job = await context.call(find_benchmark, context, job_id, owner)
    other = await context.call(find_benchmark, context, other_id, owner, "compare")
    headers = _headers(f"{job.version}.{other.id}.{other.version}.{request.app.version}", JSON)
    if is_not_modified(request, headers["etag"]):
        return Response(None, 304, headers)

    def make() -> bytes:
        return comparison(results_of(context, other), results_of(context, job)).model_dump_json().encode()

    key = (job.id, job.version, "compare", other.id, other.version)
    return Response(await context.renders.body(key, make, owner=owner), 200, headers, JSON)


def find_benchmark(context: Context, job_id: str, owner: str, field: str | None = None) -> Job:
    """The benchmark job. Raises JobNotFound; NotFound for a job that is not a benchmark; both with the `field`."""
    try:
        job = context.ledger.get(job_id, owner=owner)
    except JobNotFound as error:
        error.field = field
        raise
    if not isinstance(job.record.request, BenchmarkSpec):
        raise NotFound(f"Job {job_id} is a product, not a benchmark; see /v1/jobs/{job_id}/product.", field=field)
    return job


def check_comparable(form: str | None) -> None:
    """Raises InvalidRequest for a format that comparisons do not have."""
    if form not in (None, "json"):
        raise InvalidRequest("A comparison comes as JSON alone; leave format out.", field="format")


def _by_accept(request: Request, forms: Mapping[str, ResultFormat]) -> str:
    best = choose_type(listed(request, "accept"), media_types(forms))
    return next(name for name, form in forms.items() if form.media_type == best)


def _headers(version: str, media_type: str) -> dict[str, str]:
    headers = {"etag": f'"{version}"', "cache-control": "no-cache", "vary": "accept"}
    return headers | ({"content-security-policy": POLICY} if media_type in (HTML, SVG) else {})


def _made(context: Context, job: Job, form: ResultFormat) -> bytes:
    return form.make(results_of(context, job))


def results_of(context: Context, job: Job) -> Results:
    """The job's results, read and pooled once for all formats. Raises StoreUnavailable."""
    return context.renders.results(
        (job.id, job.version), lambda: collect(job.record, context.breaker.run(lambda: context.ledger.findings(job.id)))
    )
