"""/v1/leaderboard."""

from __future__ import annotations

from jobs import errors
from service.benchmarks.leaderboard import Leaderboard
from service.openapi.manual.parts import CONDITIONAL, CONDITIONS, Piece, json_answer, no_answer, problems

GET: Piece = {
    "tags": ["published"],
    "operation_id": "get_leaderboard",
    "summary": "Rank kernels against each other",
    "description": "A board for each device, element type, accuracy and size that this service's recorded runs have: "
    "kernels at their fastest configs, the library's lines among them. Kernels share a rank where their samples do not "
    "tell them apart. What something disturbed is left out. Each row names the published results that it comes from.",
    "responses": {
        200: json_answer(Leaderboard, "The boards; none where nothing was measured of what is asked for.", "ETag"),
        304: no_answer("It is still the one that If-None-Match names.", "ETag"),
        **problems(errors.InvalidRequest, *CONDITIONAL, reads_store=False),
    },
    "openapi_extra": {"parameters": [*CONDITIONS]},
}
