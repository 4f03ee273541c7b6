"""/v1/leaderboard: kernels of the recorded runs, ranked."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from service.benchmarks.leaderboard import Leaderboard, LeaderboardQuery, selected
from service.http.conditions import is_not_modified
from service.http.negotiation import JSON
from service.openapi.manual import leaderboard as manual

router = APIRouter(prefix="/v1/leaderboard")


@router.get("", **manual.GET)
async def get_leaderboard(request: Request, asked: Annotated[LeaderboardQuery, Query()]) -> Response:
    body = Leaderboard(boards=tuple(selected(asked))).model_dump_json().encode()
    headers = {"etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"', "cache-control": "no-cache"}
    if is_not_modified(request, headers["etag"]):
        return Response(None, 304, headers)
    return Response(body, 200, headers, JSON)
