"""The leaderboard as HTTP shows it, computed once from the recorded runs that ship with the package."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field

from analysis.comparison.leaderboard import Board, RankedRun, boards
from analysis.sources import from_publication
from jobs.base import Strict
from kernels.model.numerics import AccuracyName, DTypeName
from kernels.published import PUBLISHED

HEADLINE_SIZE = 4096  # large enough for every kernel, and measured for every type


def _normalised(size: str) -> str:
    """The size as boards have it. Raises ValueError."""
    if re.fullmatch(r"\d+([x×]\d+[x×]\d+)?", size, re.ASCII) is None:
        raise ValueError("write N, such as 4096, or m×n×k, such as 16×8192×8192")
    return size.replace("x", "×")


Size = Annotated[str, AfterValidator(_normalised)]


class LeaderboardQuery(Strict):
    """Selects boards; a field that is left out selects all."""

    device: str | None = Field(None, max_length=100, description="Model name.", examples=["NVIDIA H200"])
    dtype: DTypeName | None = Field(None, description="Element type of the operands.", examples=["bfloat16"])
    accuracy: AccuracyName | None = Field(None, description="Class of the arithmetic.", examples=["bf16"])
    size: Size | None = Field(
        None, max_length=40, description="N of square products, or m×n×k; an x will do for ×.", examples=["4096"]
    )


class Leaderboard(Strict):
    """Kernels of every size that was measured."""

    boards: tuple[Board, ...] = Field(
        description="One for each device, element type, accuracy and size: square products first, sizes rising."
    )


@cache
def every_board() -> tuple[Board, ...]:
    """The boards of this project's own runs; results published by others do not state their noise. Devices with many
    runs come first.
    """
    ours = [one for one in PUBLISHED.values() if one.report is None]
    runs = Counter(one.device.name for one in ours)
    found = boards(RankedRun(one.name, from_publication(one)) for one in ours)
    return tuple(sorted(found, key=lambda board: -runs[board.device]))


def selected(asked: LeaderboardQuery) -> Sequence[Board]:
    return [
        board
        for board in every_board()
        if asked.device in (None, board.device)
        and asked.dtype in (None, board.dtype)
        and asked.accuracy in (None, board.accuracy)
        and asked.size in (None, board.size)
    ]


def headline(found: Sequence[Board]) -> Board:
    """The board to show first among those of one type: the one at HEADLINE_SIZE, or the nearest size."""
    return min(found, key=lambda board: (board.m != board.n or board.n != board.k, abs(board.n - HEADLINE_SIZE)))


@cache
def headlines() -> tuple[Board, ...]:
    """One board for each device, element type and accuracy."""
    kinds = dict.fromkeys((board.device, board.dtype, board.accuracy) for board in every_board())
    return tuple(
        headline([each for each in every_board() if (each.device, each.dtype, each.accuracy) == kind]) for kind in kinds
    )
