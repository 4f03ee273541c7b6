"""How pages name the leaderboard's boards and link to them, and the panel of their headlines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from analysis.answers.answer import in_words
from analysis.comparison.leaderboard import Board, LeaderboardRow
from service.benchmarks.leaderboard import headlines


def type_of(board: Board) -> str:
    """The board's element type in words, with the accuracy class if the type has several."""
    several = {each.accuracy for each in headlines() if (each.device, each.dtype) == (board.device, board.dtype)}
    return f"{board.dtype} as {board.accuracy}" if len(several) > 1 else board.dtype


def kind_of(board: Board) -> tuple[str, str, str]:
    """What all boards have in common that are listed together."""
    return board.device, board.dtype, board.accuracy


def devices() -> list[str]:
    """The devices that have boards."""
    return list(dict.fromkeys(each.device for each in headlines()))


def link(board: Board) -> str:
    query = {"device": board.device, "dtype": board.dtype, "accuracy": board.accuracy, "size": board.size}
    return f"/ui/leaderboard?{urlencode(query)}"


def evidence(board: Board, row: LeaderboardRow) -> str:
    """Links to the records that a row comes from."""
    size = str(row.padded_to) if row.padded_to else board.size
    query = urlencode({"kernel": row.kernel, "dtype": board.dtype, "size": size})
    return f"/ui/published/{row.published}?{query}#records"


def name_of(row: LeaderboardRow) -> str:
    return f"{row.kernel}, padded to {row.padded_to}" if row.padded_to else row.kernel


def panel() -> Mapping[str, Any]:
    """The data of `published_panel.html`, on any page."""
    return {"boards": headlines(), "link": link, "in_words": in_words, "type_of": type_of, "devices": devices()}
