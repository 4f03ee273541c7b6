"""`/ui/published`: results of others, and this project's recorded runs, to hold one's own against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from analysis.comparison.environment import flat
from analysis.measurement import size_of
from analysis.plots.by_name import draw_of
from analysis.plots.style import Form
from analysis.sources import measured
from jobs.base import Strict
from kernels.published import PUBLISHED
from kernels.published_records import Publication, PublishedDevice, PublishedRecord
from service.benchmarks.replies import CSV, PNG, POLICY, SVG
from service.context import context_of
from service.dashboard.charts.roofline import MODELS
from service.dashboard.charts.rows import published_rows, to_csv
from service.dashboard.charts.selection import Charts, ChartView, charts
from service.dashboard.render import page
from service.dashboard.words import UNKNOWN
from service.http.conditions import none_match
from service.published import find

router = APIRouter(include_in_schema=False)


class PublishedPicture(Strict):
    """As what a plot comes."""

    format: Form = "svg"


@router.get("/ui/published")
async def published_list(request: Request) -> Response:
    return page(request, "results_published_list.html", published=PUBLISHED.values())


@router.get("/ui/published/{name}")
async def published(request: Request, name: str, view: Annotated[ChartView, Query()]) -> Response:
    """Raises NotFound, InvalidRequest."""
    find(name)
    found = PUBLISHED[name]
    return page(
        request,
        "results_published.html",
        found=found,
        view=view,
        charts=await context_of(request).call(_charts, found, view),
        published={other: one for other, one in PUBLISHED.items() if other != name},
        models=MODELS,
        device=tuple(_known(found.device)),
        size=_size,
    )


def _charts(found: Publication, view: ChartView) -> Charts:
    taken = measured(found)
    return charts(view, taken, published_rows(taken), f"/ui/published/{found.name}/results.csv")


@router.get("/ui/published/{name}/results.csv")
async def published_csv(request: Request, name: str) -> Response:
    """Its figures with the columns of a benchmark's CSV. Raises NotFound."""
    etag = find(name).etag
    if none_match(request.headers.get("if-none-match"), etag):
        return Response(None, 304, {"etag": etag})
    key = ("published", name, "csv")
    body = await context_of(request).renders.body(key, lambda: to_csv(published_rows(measured(PUBLISHED[name]))))
    return Response(body, 200, {"etag": etag, "cache-control": "no-cache"}, CSV)


@router.get("/ui/published/{name}/plots/{plot}")
async def published_plot(
    request: Request, name: str, plot: str, form: Annotated[PublishedPicture, Query()]
) -> Response:
    """Raises NotFound, ExtraMissing."""
    find(name)
    key = ("published", name, plot, form.format)
    drawn = await context_of(request).renders.body(
        key, lambda: draw_of(measured(PUBLISHED[name]), plot, form=form.format)
    )
    headers = {"cache-control": "no-cache", "content-security-policy": POLICY}
    return Response(drawn, 200, headers, SVG if form.format == "svg" else PNG)


def _known(device: PublishedDevice) -> Iterator[tuple[str, Any]]:
    """What the source says of it, by name."""
    whole = {field.name: getattr(device, field.name) for field in fields(device)}
    return ((name, value) for name, value in flat(whole) if value is not None)


def _size(record: PublishedRecord) -> str:
    if record.m is None or record.n is None or record.k is None:
        return UNKNOWN if record.n is None else str(record.n)
    return size_of(record.m, record.n, record.k)
