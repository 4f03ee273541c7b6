"""/docs, /openapi.json, and a page for each type of problem."""

from __future__ import annotations

from functools import lru_cache

import orjson
from fastapi import APIRouter, FastAPI, Request, Response
from starlette.responses import HTMLResponse

from jobs.errors import NotFound
from service.http.negotiation import JSON
from service.openapi.page import POLICY, manual_page
from service.problems import BY_TYPE, STATUS, title_of

HEADERS = {"content-security-policy": POLICY}

router = APIRouter(include_in_schema=False)


@lru_cache(maxsize=4)
def _document(app: FastAPI) -> bytes:
    return orjson.dumps(app.openapi(), option=orjson.OPT_NON_STR_KEYS)


@lru_cache(maxsize=4)
def _manual(document: bytes) -> str:
    return manual_page(orjson.loads(document))


@router.get("/openapi.json")
async def openapi_document(request: Request) -> Response:
    return Response(_document(request.app), media_type=JSON)


@router.get("/docs")
async def manual(request: Request) -> Response:
    return HTMLResponse(_manual(_document(request.app)), headers=HEADERS)


@router.get("/problems/{name}")
async def problem(name: str) -> Response:
    """The page to which `type` of a problem document links."""
    if name not in BY_TYPE:
        raise NotFound("There is no problem of that type.")
    cls = BY_TYPE[name]
    return Response(
        orjson.dumps({"type": f"/problems/{name}", "title": title_of(cls), "status": STATUS[cls]}), media_type=JSON
    )
