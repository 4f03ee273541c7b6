"""The list of cells, and the mapping of callers to cells."""

from __future__ import annotations

import hashlib
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from jobs.base import Strict
from jobs.errors import InvalidSettings
from jobs.setting_groups.cells import CELL_DIGITS

BUCKETS = 1000  # hash buckets of affinities; each belongs to one cell


class Cell(Strict):
    """One Redis with its API processes and workers."""

    cell: str = Field(pattern=rf"^[0-9a-f]{{{CELL_DIGITS}}}$", description="Its MATMUL_CELL.")
    servers: tuple[str, ...] = Field(min_length=1, description="`host:port` of each of its API hosts.")

    @field_validator("servers")
    @classmethod
    def _are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for server in servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal() or set(server) & set(" ;{}\"'\n\t$"):
                raise ValueError(f"{server!r} is not host:port")
        return servers


class CellPlan(Strict):
    """The proxy's configuration."""

    listen: str = Field("8080", pattern=r"^[A-Za-z0-9.:\[\]]+$", description="Address or port of the proxy.")
    new_work: Literal["affinity", "least_connections"] = Field(
        "affinity",
        description="`affinity`: what one caller sends goes to one cell. `least_connections`: what names no affinity "
        "goes to the cell with the fewest requests; only where no request names a stored matrix.",
    )
    cells: tuple[Cell, ...] = Field(min_length=1)

    @field_validator("cells")
    @classmethod
    def _differ(cls, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        if len({each.cell for each in cells}) != len(cells):
            raise ValueError("two cells have the same number")
        return cells

    @model_validator(mode="after")
    def _have_a_share(self) -> Self:
        idle = {each.cell for each in self.cells} - {name for name, _ in self.buckets()}
        if idle:
            raise ValueError(
                f"cell {min(idle)} gets no share of the {BUCKETS} that callers are hashed to: too many cells"
            )
        return self

    def buckets(self) -> list[tuple[str, int]]:
        """Runs of buckets of one cell, in order. By rendezvous hashing, so adding or removing a cell moves only its own
        share.
        """
        names = [each.cell for each in self.cells]
        owners = (max(names, key=lambda name: _weight(name, bucket)) for bucket in range(BUCKETS))
        return [(name, len(list(run))) for name, run in groupby(owners)]


def _weight(cell: str, bucket: int) -> bytes:
    return hashlib.sha256(f"{cell} {bucket}".encode()).digest()


def read_plan(path: Path) -> CellPlan:
    """Raises InvalidSettings."""
    try:
        return CellPlan.model_validate(tomllib.loads(path.read_text()), strict=False)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSettings(f"{path} cannot be read: {error}.") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidSettings(f"{path}: {where}: {first['msg']}.") from None
