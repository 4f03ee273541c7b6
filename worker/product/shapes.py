"""Names of shapes that `auto` was asked for, and what was measured at them as a text: as both are kept in Redis."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import cast

import structlog

from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES, AccuracyName, DTypeName, Problem
from kernels.selection.tuned import Entry
from kernels.strict_json import DataError, parse

_NAME = re.compile(r"(\w+) (\w+) (\d+)x(\d+)x(\d+)x(\d+)")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AskedShape:
    """A product that `auto` was asked for. Equal ones take the same kernel."""

    problem: Problem
    accuracy: AccuracyName

    @property
    def name(self) -> str:
        p = self.problem
        transposed = f"{' at' * p.transpose_a}{' bt' * p.transpose_b}{' symmetric' * p.symmetric}"
        return f"{p.dtype} {self.accuracy} {p.m}x{p.n}x{p.k}x{p.batch}{transposed}"


def shape_named(name: str) -> AskedShape | None:
    """The shape; None for a name that another version wrote, and for transposed operands, which are in no table."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] not in DTYPE_NAMES or found[2] not in ACCURACY_NAMES:
        return None
    m, n, k, batch = map(int, found.groups()[2:])
    problem = Problem.in_batch(m, n, k, cast("DTypeName", found[1]), batch)
    return AskedShape(problem, cast("AccuracyName", found[2]))


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements at one shape: an entry for each accuracy class."""

    entries: tuple[Entry, ...]

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def read_measured(text: str, name: str) -> Measured | None:
    """The measurements; None, with a line in the log, if they cannot be read. The tables decide then."""
    try:
        return parse(Measured, text, name)
    except DataError as error:
        log.warning("what was measured at a shape cannot be read", reason=str(error))
        return None
