"""`/ui/published`: published results of others, and this project's recorded runs, to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from analysis.answers.answer import Answer, answers, in_words
from analysis.comparison.environment import flat
from analysis.measurement import size_of
from analysis.plots.by_name import draw_of
from analysis.plots.style import Form
from analysis.sources import measured
from jobs.base import Strict
from kernels.published import PUBLISHED
from kernels.published_records import Publication, PublishedDevice, PublishedRecord
from service.benchmarks.replies import CSV, PNG, POLICY, SVG
from service.context import context_of, owner_of
from service.dashboard.charts.roofline import MODELS
from service.dashboard.charts.rows import published_rows, to_csv
from service.dashboard.charts.selection import Charts, ChartView, Text, charts
from service.dashboard.render import page
from service.dashboard.words import UNKNOWN
from service.http.conditions import is_not_modified
from service.published import find

FIRST = ("h200_vs_cublas", "h200_ladder", "h200_grade", "h200_twenty_sizes", "h200_roofline", "h100_grade")

router = APIRouter(include_in_schema=False)


class PublishedPicture(Strict):
    """The formats of a plot."""

    format: Form = "svg"


@router.get("/ui/published")
async def published_list(request: Request) -> Response:
    return page(
        request,
        "results_published_list.html",
        ours=_by_device(),
        reports=[one for one in PUBLISHED.values() if one.report],
        firsts=_first_answers(),
        in_words=in_words,
    )


def _by_device() -> dict[str, list[Publication]]:
    """This project's own runs: the most requested first, then in the order of presets."""
    found: dict[str, list[Publication]] = {}
    ours = (one for one in PUBLISHED.values() if one.report is None)
    for one in sorted(ours, key=lambda one: (FIRST.index(one.name) if one.name in FIRST else len(FIRST), one.title)):
        found.setdefault(one.device.name or "an unnamed device", []).append(one)
    return found


@cache
def _first_answers() -> Mapping[str, Answer | None]:
    return {name: next(iter(answers(measured(one))), None) for name, one in PUBLISHED.items()}


class PublishedView(ChartView):
    """The query: which plot, and which records."""

    kernel: Text = ""
    dtype: Text = ""
    size: Text = ""

    def shows(self, record: PublishedRecord) -> bool:
        wanted = ((self.kernel, record.kernel or ""), (self.dtype, record.dtype), (self.size, _size(record)))
        return all(not asked or asked == value for asked, value in wanted)


@router.get("/ui/published/{name}")
async def published(request: Request, name: str, view: Annotated[PublishedView, Query()]) -> Response:
    """Raises NotFound, InvalidRequest."""
    find(name)
    found = PUBLISHED[name]
    return page(
        request,
        "results_published.html",
        found=found,
        view=view,
        records=[record for record in found.records if view.shows(record)],
        choices=_choices(found, view),
        answers=answers(measured(found)),
        in_words=in_words,
        charts=await context_of(request).call(_charts, found, view),
        published={other: one for other, one in PUBLISHED.items() if other != name},
        models=MODELS,
        device=tuple(_known(found.device)),
        size=_size,
    )


def _choices(found: Publication, view: PublishedView) -> Sequence[tuple[str, str, Sequence[str], str]]:
    """The fields by which records are filtered: name, label, values, chosen value."""
    values = {
        "kernel": (record.kernel for record in found.records),
        "dtype": (record.dtype for record in found.records),
        "size": map(_size, found.records),
    }
    words = {"kernel": "Kernel", "dtype": "Element type", "size": "Matrix size"}
    chosen = {name: str(getattr(view, name)) for name in words}
    return [
        (name, words[name], list(dict.fromkeys(filter(None, (*known, chosen[name])))), chosen[name])
        for name, known in values.items()
    ]


def _charts(found: Publication, view: ChartView) -> Charts:
    taken = measured(found)
    return charts(view, taken, published_rows(taken), f"/ui/published/{found.name}/results.csv")


@router.get("/ui/published/{name}/results.csv")
async def published_csv(request: Request, name: str) -> Response:
    """The results as CSV, with the columns of a benchmark's CSV. Raises NotFound."""
    etag = find(name).etag
    if is_not_modified(request, etag):
        return Response(None, 304, {"etag": etag})
    key = ("published", name, "csv")
    body = await context_of(request).renders.body(
        key, lambda: to_csv(published_rows(measured(PUBLISHED[name]))), owner=owner_of(request)
    )
    return Response(body, 200, {"etag": etag, "cache-control": "no-cache"}, CSV)


@router.get("/ui/published/{name}/plots/{plot}")
async def published_plot(
    request: Request, name: str, plot: str, form: Annotated[PublishedPicture, Query()]
) -> Response:
    """Raises NotFound, ExtraMissing."""
    find(name)
    key = ("published", name, plot, form.format)
    drawn = await context_of(request).renders.body(
        key, lambda: draw_of(measured(PUBLISHED[name]), plot, form=form.format), owner=owner_of(request)
    )
    headers = {"cache-control": "no-cache", "content-security-policy": POLICY}
    return Response(drawn, 200, headers, SVG if form.format == "svg" else PNG)


def _known(device: PublishedDevice) -> Iterator[tuple[str, Any]]:
    """What the source states about the device, by name."""
    whole = {field.name: getattr(device, field.name) for field in fields(device)}
    return ((name, value) for name, value in flat(whole) if value is not None)


def _size(record: PublishedRecord) -> str:
    if record.m is None or record.n is None or record.k is None:
        return UNKNOWN if record.n is None else str(record.n)
    return size_of(record.m, record.n, record.k)
