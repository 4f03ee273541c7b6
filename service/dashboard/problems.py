"""Errors on pages, as pages."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from jobs.errors import MatmulError
from service.dashboard.render import page
from service.http.security import FRONT, PAGES
from service.problems import STATUS, problem_headers, title_of


def is_page(request: Request) -> bool:
    return request.url.path == FRONT or request.url.path.startswith(PAGES)


def problem_page(request: Request, error: MatmulError) -> Response:
    """A page with the error's message, with the status that the API would give it."""
    cls = type(error)
    reply = page(request, "problem.html", status=STATUS[cls], title=title_of(cls), detail=error.detail)
    reply.headers.update(problem_headers(error))
    return reply
