"""/v1/leaderboard."""

from __future__ import annotations

from jobs import errors
from service.benchmarks.leaderboard import Leaderboard
from service.openapi.manual.parts import CONDITIONAL, CONDITIONS, Piece, json_answer, no_answer, problems

GET: Piece = {
    "tags": ["published"],
    "operation_id": "get_leaderboard",
    "summary": "Rank kernels against each other",
    "description": "A board for each device, element type, accuracy and size in this service's recorded runs: kernels "
    "at their fastest configs, the library's among them. Kernels share a rank if their samples do not distinguish "
    "them. Disturbed measurements are left out. Each row names the published results that it comes from.",
    "responses": {
        200: json_answer(Leaderboard, "The boards; empty if nothing was measured that fits the request.", "ETag"),
        304: no_answer("The caller's copy is current.", "ETag"),
        **problems(errors.InvalidRequest, *CONDITIONAL, reads_store=False),
    },
    "openapi_extra": {"parameters": [*CONDITIONS]},
}
