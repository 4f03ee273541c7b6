"""`/ui/published`: results of others, and this project's recorded runs, to hold one's own against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request, Response

from analysis.environment import flat
from kernels.published import PUBLISHED
from kernels.published_records import PublishedDevice, PublishedRecord
from service.dashboard.render import page
from service.dashboard.results_tables import size_of
from service.dashboard.words import UNKNOWN
from service.published import find

router = APIRouter(include_in_schema=False)


@router.get("/ui/published")
async def published_list(request: Request) -> Response:
    return page(request, "results_published_list.html", published=PUBLISHED.values())


@router.get("/ui/published/{name}")
async def published(request: Request, name: str) -> Response:
    """Raises NotFound."""
    find(name)
    found = PUBLISHED[name]
    return page(
        request,
        "results_published.html",
        found=found,
        device=tuple(_known(found.device)),
        size=_size,
    )


def _known(device: PublishedDevice) -> Iterator[tuple[str, Any]]:
    """What the source says of it, by name."""
    whole = {field.name: getattr(device, field.name) for field in fields(device)}
    return ((name, value) for name, value in flat(whole) if value is not None)


def _size(record: PublishedRecord) -> str:
    if record.m is None or record.n is None or record.k is None:
        return UNKNOWN if record.n is None else str(record.n)
    return size_of(record.m, record.n, record.k)
