"""Sorts the measurements of one shape into the ranking and trials of a table's entry."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

from kernels.catalog import BY_NAME
from kernels.selection.tuned import RankedRow, Trial


def error_ratio(own: float | None, library: float | None) -> float | None:
    """In ten-thousandths, and above 1 where it is at all; None where either is unknown or there is no ratio."""
    if own is None or library is None or (library == 0.0 and own > 0.0):
        return None
    return ceil(own / library * 1e4) / 1e4 if library else 1.0


def compared(rows: Iterable[RankedRow]) -> dict[str, Any]:
    """An entry's ranking and trials."""
    rows = tuple(rows)
    tried = _trials(row for row in rows if isinstance(row, Trial) and _is_tried(row))
    exact = [row for row in tried if row.is_as_exact]
    return {"ranking": _ranked((*(row for row in rows if not _is_tried(row)), *exact)), "trials": tried}


def _trials(rows: Iterable[Trial]) -> tuple[Trial, ...]:
    """One for each config, in order: of several the last."""
    last = {(row.kernel, *sorted(row.config.items())): row for row in rows}
    return tuple(last[key] for key in sorted(last))


def _ranked(rows: Iterable[RankedRow]) -> tuple[RankedRow, ...]:
    """Each kernel's best, fastest first."""
    best: dict[str, RankedRow] = {}
    for row in (RankedRow(**{name: getattr(row, name) for name in RankedRow.__slots__}) for row in rows):
        if row.kernel not in best or row.gflops > best[row.kernel].gflops:
            best[row.kernel] = row
    return tuple(sorted(best.values(), key=lambda row: (-row.gflops, row.kernel)))


def _is_tried(row: RankedRow) -> bool:
    """Whether its kernel makes its products of another type's: it is to be taken for the library's equal, so it is
    ranked only in configs, and at shapes, where it is one."""
    return BY_NAME[row.kernel].emulated_with is not None
