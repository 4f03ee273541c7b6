"""Settings of a cell, a part of `jobs.settings.Settings`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings

CELL_DIGITS = 3  # hex digits before the random part of an id
MAX_CELL = 16**CELL_DIGITS - 1


def _number_of(value: Any) -> Any:
    """Raises ValueError for a text that is not of hex digits."""
    if isinstance(value, str) and re.fullmatch("[0-9A-Fa-f]+", value) is None:
        raise ValueError("must be hex digits, as 007")
    return int(value, 16) if isinstance(value, str) else value


CellNumber = Annotated[int, BeforeValidator(_number_of)]


class CellSettings(BaseSettings):
    """A cell is one Redis with its API processes and workers; a service of one cell needs no number."""

    cell: CellNumber | None = Field(
        None,
        ge=0,
        le=MAX_CELL,
        description="This cell's number, three hex digits such as `007`: ids of jobs, products and uploads begin with "
        "it, so that a proxy can route by them. Unset: ids are random throughout.",
    )

    @property
    def cell_digits(self) -> str:
        """The digits that ids begin with; empty if cells are not numbered."""
        return "" if self.cell is None else f"{self.cell:0{CELL_DIGITS}x}"
