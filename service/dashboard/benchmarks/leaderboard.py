"""`/ui/leaderboard`: kernels of the recorded runs, ranked by device, element type and size; no GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from analysis.answers.answer import in_words
from analysis.comparison.leaderboard import Board, LeaderboardRow
from jobs.errors import NotFound
from kernels.published import PUBLISHED
from service.benchmarks.leaderboard import LeaderboardQuery, every_board, headline, headlines, selected
from service.dashboard.boards import devices, evidence, kind_of, link, name_of, type_of
from service.dashboard.charts.shares import ShareBar, ShareGroup, draw
from service.dashboard.charts.svg import KERNEL_STYLES
from service.dashboard.render import page
from service.dashboard.words import figure, percent

FIRST_TYPE = "bfloat16"  # what most visitors use: the type of today's models

router = APIRouter(include_in_schema=False)


@router.get("/ui/leaderboard")
async def leaderboard(request: Request, asked: Annotated[LeaderboardQuery, Query()]) -> Response:
    """The leaderboard page. Raises NotFound if nothing matches."""
    found = selected(asked)
    if not found:
        raise NotFound("No recorded run has this; see the leaderboard for the types and sizes there are.", field="size")
    board = _first(found)
    return page(
        request,
        "leaderboard.html",
        board=board,
        drawing=drawing(board),
        kinds={device: [each for each in headlines() if each.device == device] for device in devices()},
        kind_of=kind_of,
        type_of=type_of,
        sizes=[each for each in every_board() if kind_of(each) == kind_of(board)],
        link=link,
        evidence=evidence,
        name_of=name_of,
        titles={name: one.title for name, one in PUBLISHED.items()},
        in_words=in_words,
    )


def _first(found: Sequence[Board]) -> Board:
    """The board to show first among the matching ones: of the most wanted element type, otherwise of the first."""
    wanted = next((each for each in found if each.dtype == FIRST_TYPE), found[0])
    return headline([each for each in found if kind_of(each) == kind_of(wanted)])


def drawing(board: Board) -> Markup:
    """The chart of a board: in percent of the library's speed if there is one, otherwise in GFLOPS."""
    has_library = board.library is not None
    bars = [_bar(row, has_library) for row in board.rows]
    axis = f"Speed, % of {name_of(board.library)}" if board.library else "GFLOPS"
    return draw([ShareGroup("", bars)], axis, level=100.0 if has_library else None)


def _bar(row: LeaderboardRow, has_library: bool) -> ShareBar:
    share = row.fraction_of_library
    style = KERNEL_STYLES[row.kernel]
    speed = f"{in_words(row.gflops)} ({figure(row.gflops_lo)} to {figure(row.gflops_hi)} GFLOPS)"
    if not has_library or share is None:
        return ShareBar(
            name_of(row),
            style,
            row.gflops,
            row.gflops_lo,
            row.gflops_hi,
            in_words(row.gflops),
            f"{row.kernel}: {speed}",
        )
    tip = f"{name_of(row)}: {speed}, {percent(share.value)} of the library ({percent(share.lo)} to {percent(share.hi)})"
    return ShareBar(name_of(row), style, 100 * share.value, 100 * share.lo, 100 * share.hi, in_words(row.gflops), tip)
