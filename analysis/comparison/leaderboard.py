"""Kernels ranked against each other, by device, element type, accuracy and size, from recorded runs.

A kernel is ranked by its fastest config in any of the runs: rows of a board may come from different runs, on different
cards of the device's model, and each says from which. Only clean measurements with known noise count. A kernel shares
the rank of the one before it unless the comparison of two runs would call it slower than the first of that rank
(`analysis/comparison/compare.py`). The library is ranked with its fastest result, and shares are relative to that. If
it was also measured at the next multiple of 64, the same product on operands padded with zeros has a row of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from analysis.comparison.compare import compare_case
from analysis.comparison.shares import share_of
from analysis.curves import is_library, speed, usable
from analysis.library import ALIGNED, as_part_of, padded_extents
from analysis.measurement import Measurement, size_of
from analysis.result_models import Ratio
from jobs.base import Strict
from kernels.model.numerics import DTYPE_NAMES, DTYPES, AccuracyName, DTypeName


class RankedRun(NamedTuple):
    """A recorded run that rows come from."""

    name: str  # of the published results
    measurements: Sequence[Measurement]


class LeaderboardRow(Strict):
    """One kernel at its fastest config."""

    rank: int = Field(description="From 1. Kernels that the samples do not tell apart share one.", examples=[1])
    kernel: str = Field(description="Name in the catalogue.", examples=["hopper_bf16"])
    is_library: bool = Field(description="Whether it is a library's, which the others are held against.")
    config: dict[str, int] = Field(description="Its tile config.")
    padded_to: int | None = Field(
        description="Operands were padded with zeros to this size first, which is not in the time; null where not."
    )
    gflops: float = Field(description="Median speed.")
    gflops_lo: float = Field(description="Speed at the third quartile of the times.")
    gflops_hi: float = Field(description="Speed of the fastest sample.")
    fraction_of_library: Ratio | None = Field(
        description="Speed over that of the library's fastest line in any run, with what the samples leave open; null "
        "without one."
    )
    error_vs_float64: float | None = Field(description="Relative error against the float64 product.")
    published: str = Field(description="Results that it comes from, at GET /v1/published/{name}.")


class Board(Strict):
    """Kernels that computed the same product on the same device, fastest first."""

    device: str = Field(description="Model name.", examples=["NVIDIA H200"])
    dtype: DTypeName = Field(description="Element type of the operands.")
    accuracy: AccuracyName = Field(description="Class of the arithmetic that all of them do.")
    m: int = Field(description="Rows of A and C.")
    n: int = Field(description="Columns of B and C.")
    k: int = Field(description="Columns of A, rows of B.")
    rows: tuple[LeaderboardRow, ...] = Field(description="The fastest first.")

    @property
    def size(self) -> str:
        return size_of(self.m, self.n, self.k)

    @property
    def best(self) -> LeaderboardRow:
        """The first row that is not a library's."""
        return next((row for row in self.rows if not row.is_library), self.rows[0])

    @property
    def library(self) -> LeaderboardRow | None:
        return next((row for row in self.rows if row.is_library), None)

    @property
    def library_may_be_faster(self) -> bool:
        """Whether all figures of the library are like those of its own choice on operands as they are, at a size at
        which padded ones are usually faster. A tuned one that gains nothing may not have tried them. Operands of 1-byte
        elements are always padded."""
        ranks = {row.rank for row in self.rows if row.is_library}
        is_padded = DTYPES[self.dtype].itemsize == 1 or any(row.padded_to for row in self.rows)
        is_aligned = all(extent % ALIGNED == 0 for extent in (self.m, self.n, self.k))
        return len(ranks) == 1 and not is_padded and not is_aligned


class _Entry(NamedTuple):
    """A kernel's fastest measurement of a case."""

    measurement: Measurement
    published: str
    padded_to: int | None = None


_Case = tuple[Hashable, tuple[int, int, int]]  # device, type and accuracy; m, n, k
_Entries = dict[str, _Entry]  # by kernel


def boards(runs: Iterable[RankedRun]) -> tuple[Board, ...]:
    """A board for every case that a kernel of this project and another kernel have figures for. Types come in the
    catalogue's order, then sizes in rising order."""
    by_case: dict[_Case, _Entries] = {}
    for run in runs:
        for each in filter(_counts, run.measurements):
            kernels = by_case.setdefault((_kind(each), (each.m, each.n, each.k)), {})
            assert each.kernel is not None
            if each.kernel not in kernels or speed(each) > speed(kernels[each.kernel].measurement):
                kernels[each.kernel] = _Entry(each, run.name)
    found = [
        _board([*kernels.values(), *_padded(case, by_case)])
        for case, kernels in by_case.items()
        if _is_contest(kernels)
    ]
    return tuple(sorted(found, key=_order))


def _kind(each: Measurement) -> Hashable:
    return each.device.name, each.dtype, each.accuracy


def _padded(case: _Case, by_case: Mapping[_Case, _Entries]) -> Iterator[_Entry]:
    """What libraries measured at the next aligned size would achieve at this one."""
    kind, _ = case
    one = next(iter(by_case[case].values())).measurement
    if not one.is_square or (extents := padded_extents(one)) is None:
        return
    for name, entry in by_case.get((kind, extents), {}).items():
        if is_library(name):
            yield _Entry(as_part_of(entry.measurement, one), entry.published, extents[1])


def _counts(each: Measurement) -> bool:
    is_known = bool(each.kernel and each.accuracy and each.device.name and each.interval_ms)
    return is_known and usable(each) and each.condition.is_clean and each.batch == 1


def _is_contest(kernels: Iterable[str]) -> bool:
    names = list(kernels)
    return len(names) > 1 and not all(map(is_library, names))


def _board(found: Sequence[_Entry]) -> Board:
    ordered = sorted(found, key=lambda one: -speed(one.measurement))
    library = next((one.measurement for one in ordered if is_library(one.measurement.kernel)), None)
    leader = first = ordered[0].measurement
    assert first.device.name is not None and first.accuracy is not None
    rank, rows = 1, []
    for place, entry in enumerate(ordered, 1):
        if compare_case(leader, entry.measurement).verdict == "slower":
            leader, rank = entry.measurement, place
        rows.append(_row(entry, rank, library))
    return Board(
        device=first.device.name,
        dtype=first.dtype,
        accuracy=first.accuracy,
        m=first.m,
        n=first.n,
        k=first.k,
        rows=tuple(rows),
    )


def _row(entry: _Entry, rank: int, library: Measurement | None) -> LeaderboardRow:
    one, published, padded_to = entry
    speeds = one.gflops_interval
    assert one.kernel is not None and speeds is not None
    return LeaderboardRow(
        rank=rank,
        kernel=one.kernel,
        is_library=is_library(one.kernel),
        config=dict(one.config),
        padded_to=padded_to,
        gflops=speed(one),
        gflops_lo=speeds.lo,
        gflops_hi=speeds.hi,
        fraction_of_library=_share(one, library) if library else None,
        error_vs_float64=one.error_vs_float64,
        published=published,
    )


def _share(one: Measurement, library: Measurement) -> Ratio:
    share = share_of(one, library)
    lo, hi = share.interval or (share.value, share.value)
    return Ratio(value=share.value, lo=lo, hi=hi)


def _order(board: Board) -> tuple[object, ...]:
    is_square = board.m == board.n == board.k
    flops = board.m * board.n * board.k
    return board.device, DTYPE_NAMES.index(board.dtype), board.accuracy, not is_square, flops, board.m, board.n
