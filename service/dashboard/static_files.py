"""Static files of the pages, from the package, by name."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request, Response

from jobs.errors import NotFound
from service.dashboard.render import STATIC_DIR, STATIC_PATH, static
from service.http.conditions import is_not_modified

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def _names() -> frozenset[str]:
    files = (path for path in STATIC_DIR.rglob("*") if path.suffix in TYPES)
    return frozenset(path.relative_to(STATIC_DIR).as_posix() for path in files)


@router.get(f"{STATIC_PATH}/{{name:path}}")
async def static_file(request: Request, name: str) -> Response:
    if name not in _names():
        raise NotFound("There is no such file.")
    digest = static(name).rpartition("=")[2]
    headers = {"etag": f'"{digest}"', "cache-control": FOR_EVER if request.query_params.get("v") else "no-cache"}
    if is_not_modified(request, headers["etag"]):
        return Response(None, 304, headers)
    path = STATIC_DIR / name
    return Response(path.read_bytes(), 200, headers, TYPES[path.suffix])
