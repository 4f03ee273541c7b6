"""Serves the documentation site, if `make site` has built it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import FileResponse, RedirectResponse, Response

from jobs.errors import NotFound
from service.context import context_of

PREFIX = "/site/"
# Its pages contain a few inline scripts: these are allowed by their hashes, no others.
POLICY = (
    "default-src 'none'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'self'"
)
INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
TEXT = frozenset({".cu", ".cuh", ".md", ".py", ".txt", ""})  # sources linked from pages: shown, not downloaded

router = APIRouter(include_in_schema=False)


@router.get("/site")
async def front() -> Response:
    return RedirectResponse(PREFIX, 308)


@router.get("/site/{path:path}")
async def site_file(request: Request, path: str) -> Response:
    directory = context_of(request).settings.site_dir
    return await to_thread.run_sync(_reply, directory, path)


def is_built(directory: Path) -> bool:
    return (directory / "index.html").is_file()


def _reply(directory: Path, path: str) -> Response:
    if not is_built(directory):
        raise NotFound("The documentation site is not built here: make site, or set MATMUL_SITE_DIR to one that is.")
    file = _file(directory.resolve(), path)
    if file.is_dir():
        return RedirectResponse(f"{PREFIX}{path}/", 308)
    media_type = "text/plain; charset=utf-8" if file.suffix in TEXT else None
    headers = {"cache-control": "no-cache", "content-security-policy": _policy(file, file.stat().st_mtime_ns)}
    return FileResponse(file, headers=headers, media_type=media_type)


def _file(root: Path, path: str) -> Path:
    """The file at a path of the site. Raises NotFound for anything outside of it, including links that lead out."""
    try:
        named = os.path.join(root, path, "index.html" if path.endswith("/") or not path else "")
        found = os.path.realpath(named)
        is_there = os.path.commonpath((root, found)) == str(root) and os.path.exists(found)
    except (OSError, ValueError):  # not a valid file name
        is_there = False
    if not is_there:
        raise NotFound("The documentation has no such page; /site/ is its first one.")
    return Path(found)  # of what is there: of any name that is asked for, it would keep parts (jobs/disk.py)


@lru_cache(maxsize=512)
def _policy(file: Path, _changed_ns: int) -> str:
    scripts = INLINE.findall(file.read_bytes()) if file.suffix == ".html" else []
    hashes = {base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts}
    return POLICY.format(hashes=" ".join(f"'sha256-{one}'" for one in sorted(hashes)))
