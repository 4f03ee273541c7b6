"""/v1/published: results to compare with, read-only."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service import published
from service.benchmarks.report import ReportQuery, published_report
from service.http.conditions import is_not_modified
from service.http.negotiation import JSON
from service.openapi.manual import published as manual

router = APIRouter(prefix="/v1/published")


@router.get("", **manual.LIST)
async def list_published(request: Request) -> Response:
    return _reply(request, await asyncio.to_thread(published.listed))  # the first call reads the files


@router.get("/{name}", **manual.GET)
async def get_published(request: Request, name: manual.PublishedName) -> Response:
    return _reply(request, await asyncio.to_thread(published.find, name))


@router.get("/{name}/report", **manual.REPORT)
async def get_published_report(
    request: Request, name: manual.PublishedName, query: Annotated[ReportQuery, Query()]
) -> Response:
    return await published_report(request, name, query)


def _reply(request: Request, document: published.Document) -> Response:
    headers = {"etag": document.etag, "cache-control": "no-cache"}
    if is_not_modified(request, document.etag):
        return Response(None, 304, headers)
    return Response(document.body, 200, headers, JSON)
