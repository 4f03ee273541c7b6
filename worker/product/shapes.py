"""Names of shapes that `auto` was asked for, and what was measured at them as a text: as both are kept in Redis."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import cast

import structlog

from kernels.catalog import BY_NAME
from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES, AccuracyName, DTypeName, Problem
from kernels.selection.tuned import Entry, Trial
from kernels.strict_json import DataError, parse

_SIZE = "([1-9][0-9]{0,17})"
_NAME = re.compile(rf"(\w+) (\w+) {'x'.join([_SIZE] * 4)}")

# GFLOPS, and times another's speed, between which every figure lies that a device can have.
MIN_SPEED, MAX_SPEED = 1e-9, 1e9

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
    """The measurements at one shape: an entry for each accuracy class. `wrong`: kernels whose products were wrong."""

    entries: tuple[Entry, ...]
    wrong: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether measuring gave anything."""
        return bool(self.entries or self.wrong)

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def read_measured(text: str, asked: AskedShape) -> Measured | None:
    """The measurements; None, with a line in the log, if they are damaged or of another shape: the tables decide."""
    try:
        measured = parse(Measured, text, asked.name)
        for entry in measured.entries:
            _check(entry, asked)
    except DataError as error:
        log.warning("what was measured at a shape cannot be read", reason=str(error))
        return None
    return measured


def _check(entry: Entry, asked: AskedShape) -> None:
    """Raises DataError for what no worker measures: forecasts count on sizes, speeds and kernels that make sense."""
    if entry.dtype != asked.problem.dtype or not entry.is_of(asked.problem):
        raise DataError(f"{asked.name}: the entry is of {entry.dtype} at {entry.shape}.")
    if entry.baseline is not None and entry.baseline not in BY_NAME:
        raise DataError(f"{asked.name}: {entry.baseline!r:.40} is no kernel.")
    for row in (*entry.ranking, *entry.trials):
        speeds = row.gflops, 1.0 if row.fraction_of_baseline is None else row.fraction_of_baseline
        is_possible = all(MIN_SPEED <= speed <= MAX_SPEED for speed in speeds)
        is_error = not isinstance(row, Trial) or row.error_of_baseline is None or row.error_of_baseline >= 0
        if row.kernel not in BY_NAME or not (is_possible and is_error):
            raise DataError(f"{asked.name}: {row.kernel!r:.40} has no such figures.")
    exact = [(row.kernel, row.config) for row in entry.trials if row.is_as_exact]
    for row in entry.ranking:
        if BY_NAME[row.kernel].emulated_with is not None and (row.kernel, row.config) not in exact:
            raise DataError(f"{asked.name}: {row.kernel} is ranked in a config that was not as exact as the library.")
