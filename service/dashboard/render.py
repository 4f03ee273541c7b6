"""Renders templates. Everything is escaped; nothing is loaded from another origin, and no script or style is inline."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from analysis.measurement import size_of
from service.context import context_of
from service.dashboard.boards import panel
from service.dashboard.site import is_built
from service.dashboard.words import FILTERS
from service.keys import Role

HERE = Path(__file__).parent
STATIC_DIR = HERE / "static"
STATIC_PATH = "/ui/static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",  # with no-referrer a form's Origin is "null", which is refused
}
# The navigation: address, label.
PLACES = (
    ("/", "Overview"),
    ("/ui/multiply", "Multiply"),
    ("/ui/jobs", "Jobs"),
    ("/ui/benchmarks/new", "Benchmark"),
    ("/ui/compare", "Compare"),
    ("/ui/leaderboard", "Leaderboard"),
    ("/ui/published", "Published"),
    ("/ui/kernels", "Kernels"),
    ("/ui/devices", "Devices"),
    ("/ui/operations", "Operations"),
)
# Pages that belong to an entry of the navigation with another address.
WITHIN = {
    "/ui/dead-letters": "/ui/jobs",
    "/ui/pinned": "/ui/jobs",
    "/ui/benchmarks/new": "/ui/benchmarks/new",
    "/ui/benchmarks": "/ui/jobs",
}
WRITING = frozenset({"/ui/multiply", "/ui/benchmarks/new"})  # not shown to readers


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page at `request`'s address. Raises jinja2's UndefinedError for a value that the template lacks."""
    state = request.scope["state"]
    writes = state.get("role", Role.READER) >= Role.SUBMITTER
    values = {
        "path": request.url.path,
        "place": _place(request.url.path),
        "places": [place for place in PLACES if writes or place[0] not in WRITING],
        "is_documented": is_built(context_of(request).settings.site_dir),
        "signed_in": state.get("signed_in", False),
        "may_write": writes,
        "csrf": f"?csrf={token}" if (token := state.get("csrf")) else "",  # for the address of each form that posts
        **values,
    }
    return HTMLResponse(_environment().get_template(template).render(values), status, HEADERS)


def _place(path: str) -> str:
    """The navigation entry to mark as current."""
    within = next((place for prefix, place in WITHIN.items() if path == prefix or path.startswith(f"{prefix}/")), path)
    return next((address for address, _ in PLACES[1:] if f"{within}/".startswith(f"{address}/")), within)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.globals |= {"static": static, "published_panel": panel, "size_of": size_of}
    return environment


@cache
def static(name: str) -> str:
    """The address of a static file, which changes with its contents, so that browsers may cache it for ever."""
    digest = hashlib.sha256((STATIC_DIR / name).read_bytes()).hexdigest()[:16]
    return f"{STATIC_PATH}/{name}?v={digest}"
