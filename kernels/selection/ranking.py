"""Sorts the measurements of one shape into the ranking and trials of a table's entry."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

from kernels.catalog import BY_NAME
from kernels.selection.tuned import RankedRow, Trial


def error_ratio(own: float | None, library: float | None) -> float | None:
    """The ratio, rounded up to four digits after the point; None if either error is unknown or there is no ratio."""
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
    """One trial for each config, in order; the last if there are several."""
    last = {(row.kernel, *sorted(row.config.items())): row for row in rows}
    return tuple(last[key] for key in sorted(last))


def _ranked(rows: Iterable[RankedRow]) -> tuple[RankedRow, ...]:
    """Each kernel's best row, the fastest first."""
    best: dict[str, RankedRow] = {}
    for row in (RankedRow(**{name: getattr(row, name) for name in RankedRow.__slots__}) for row in rows):
        if row.kernel not in best or row.gflops > best[row.kernel].gflops:
            best[row.kernel] = row
    return tuple(sorted(best.values(), key=lambda row: (-row.gflops, row.kernel)))


def _is_tried(row: RankedRow) -> bool:
    """Whether the kernel makes its products from another type's. It then replaces the library only in configs, and at
    shapes, in which it is as exact."""
    return BY_NAME[row.kernel].emulated_with is not None
