"""The first section of docs/performance.md: our fastest kernels compared with cuBLAS at its best, for readers in a
hurry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis.result_models import Ratio, Results
from benchmarks.kernel_targets import AUTO, TARGETS, Target
from benchmarks.recorded import find, read
from benchmarks.tables.targets import Beside, beside, tflops
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTYPES
from tools.markdown import table

COLUMNS = (
    "operands",
    "N",
    "ours, TFLOPS",
    "kernel",
    "cuBLAS by default",
    "cuBLAS at its best",
    "how",
    "ratio",
    "",
)
EXPLAINED = (
    "Speed of square products, m = n = k = N, on the device alone, in TFLOPS: random normal operands, cold cache. "
    "cuBLAS *by default* is its default choice on the operands as a caller has them. *At its best* it is given "
    "what an expert would give it: operands padded with zeros to multiples of 64 where that is faster, without the "
    "time that takes, and the fastest of the ways that cublasLt proposes (*tuned*). The ratio is ours over that best, "
    "with its 95 % interval. Both took turns on one card, and the ratio is the median of those of their rounds: it may "
    "differ from that of the two speeds, which are medians of all samples. *Dense rows* had rounds of their own, and "
    "the ratio is that of the medians. Other rows may be of another card of that model. *Even*: the interval has 1 in "
    "it, so neither is faster beyond doubt."
)
LONG_MS = 10.0  # three launches then take the whole time of a trial (`worker/cuda/library/trial.py`)
HARDLY_TUNED = (
    "Tuning ends after some 30 ms of trials. Where cuBLAS's own choice alone takes that long, little or nothing else "
    "was tried: {}."
)
Tuned = Literal["here", "elsewhere", "nowhere"]  # where the tuned library was measured: in the rounds of our own case
REMARKS: Mapping[Tuned, str] = {
    "elsewhere": "Tuned in another run, whose gain over its own default counts here: {}.",
    "nowhere": "Measured by default alone, since its tuning is not recorded: {}.",
}
Tuning = Mapping[tuple[str, str, int], Mapping[str, Any]]  # rows of a library record, by kernel, type and N


@dataclass(frozen=True, slots=True)
class Headline:
    """A kernel of ours at one size. `ratio` is over the library's best; `how` says which way of calling the library
    that is."""

    operands: str
    n: int
    kernel: str
    ours_tflops: str
    lying_tflops: str
    best_tflops: str
    how: str
    ratio: Ratio
    tuned: Tuned = "here"

    @property
    def label(self) -> str:
        emulated = " emulated" if BY_NAME[self.kernel].emulated_with else ""
        return f"{self.operands}{emulated}, {self.n:,}"

    @property
    def default_ms(self) -> float:
        """The time that cuBLAS's own choice takes; 0 where it was not measured."""
        return 2 * self.n**3 / (float(self.lying_tflops) * 1e9) if self.lying_tflops else 0.0

    @property
    def verdict(self) -> str:
        """Whether the interval excludes 1, and on which side."""
        if self.ratio.lo > 1:
            return "ours"
        return "cuBLAS" if self.ratio.hi < 1 else "even"


def headlines(runs: Mapping[str, Results], tuning: Tuning) -> list[Headline]:
    """By type of operands, float32 first, then by size."""
    found = [
        row
        for target in TARGETS
        if target.name in runs and _is_plain(target)
        for one in beside(target, runs)
        if (row := _headline(one, tuning)) is not None
    ]
    order = sorted(dict.fromkeys(row.operands for row in found), key=lambda name: not name.startswith("float32"))
    return sorted(found, key=lambda row: (order.index(row.operands), row.n, row.ratio.value))


def _is_plain(target: Target) -> bool:
    """Square products by one kernel in its own class, as a caller gets them without options."""
    if target.kernel == AUTO or target.products or target.config:
        return False
    return not BY_NAME[target.kernel].accuracy[target.dtype].endswith("_normwise")


def _headline(one: Beside, tuning: Tuning) -> Headline | None:
    kernel, dtype = BY_NAME[one.target.kernel], one.target.dtype
    if not (one.ratio and one.best and one.best.kernel_ms):
        return None
    gain, lying = _gain(one, tuning), one.library
    if one.library_dense and (not lying or (lying.gflops or 0.0) < (one.library_dense.gflops or 0.0)):
        lying = one.library_dense
    own = kernel.accuracy[dtype] == DTYPES[dtype].accuracy
    return Headline(
        operands=dtype if own else f"{dtype} to {kernel.accuracy[dtype]}",
        n=one.shape.n,
        kernel=kernel.name,
        ours_tflops=tflops(one.ours),
        lying_tflops=tflops(lying),
        best_tflops=f"{one.ours.flops / one.best.kernel_ms / 1e9 * gain:.1f}",
        how=", ".join(filter(None, (_way(one), "tuned" if gain > 1 else ""))),
        ratio=Ratio(value=one.ratio.value / gain, lo=one.ratio.lo / gain, hi=one.ratio.hi / gain),
        tuned="here" if one.library_tuned is not None else "elsewhere" if _row(one, tuning) else "nowhere",
    )


def _row(one: Beside, tuning: Tuning) -> Mapping[str, Any] | None:
    return tuning.get((one.target.library, one.target.dtype, one.shape.n))


def _way(one: Beside) -> str:
    if one.best is one.library_padded:
        return "zero-padded"
    if one.best is one.library_tuned:
        return "tuned"
    return "dense rows" if one.best is one.library_dense else ""


def _gain(one: Beside, tuning: Tuning) -> float:
    """The gain of tuning over the default, both from the library's own record: machines differ, their ratios do not.
    1 if the tuned library was in our own rounds."""
    if one.library_tuned is not None:
        return 1.0
    times = (_row(one, tuning) or {}).get("padded" if one.best is one.library_padded else "as_it_lies")
    gain: float = times["default_ms"] / times["tuned_ms"] if times else 1.0
    return max(gain, 1.0)


def tuning_of(path: Path | None) -> Tuning:
    """The rows of a record of `make bench-library`; empty if there is none."""
    if path is None:
        return {}
    return {(row["kernel"], row["dtype"], row["n"]): row for row in read(path)["rows"]}


@dataclass(frozen=True, slots=True)
class HeadlineRun:
    """All rows of a run of `make bench-kernels`; `host` is the prefix of its files' names."""

    host: str
    device: str
    rows: Sequence[Headline]

    @property
    def caption(self) -> str:
        return f"Speed of the fastest kernels over cuBLAS at its best, on an {self.device}"

    def section(self) -> Iterator[str]:
        if not self.rows:
            return
        yield f"## In one table: ours and cuBLAS, on an {self.device}"
        yield " ".join((EXPLAINED, *_remarks(self.rows)))
        yield table(COLUMNS, map(_cells, self.rows)).rstrip()
        yield f"![{self.caption}](images/{self.host}_headline.svg)"
        yield f"**When ours loses.** {losses(self.rows)}"

    def words(self) -> str:
        """The largest gain and the largest loss, in words."""
        best, lost = max(self.rows, key=lambda row: row.ratio.value), lost_by(self.rows)
        gain = (
            f"On an {self.device}, `{best.kernel}` multiplies {best.operands} at N = {best.n:,} with "
            f"{best.ours_tflops} TFLOPS, {best.ratio.value:.1f} times cuBLAS at its best, in the same accuracy class."
        )
        if not lost:
            return gain
        worst = lost[0]
        padded = " on operands that the caller has padded with zeros" if "zero-padded" in worst.how else ""
        reached = f"{worst.operands} at N = {worst.n:,} reaches {worst.ratio.value:.2f} of cuBLAS{padded}"
        return f"{gain}\nIt also loses: {reached}."


def headline_of(path: Path, runs: Mapping[str, Results]) -> HeadlineRun:
    """The rows of a file of `make bench-kernels`, with the library's record."""
    device = next((str(run.device["name"]) for run in runs.values()), "")
    tuning = tuning_of(find(path.parent, f"{host_of(path)}_library"))
    return HeadlineRun(host_of(path), device, headlines(runs, tuning))


def host_of(path: Path) -> str:
    return path.name.partition("_vs_")[0]


def _cells(row: Headline) -> tuple[str, ...]:
    ratio = f"{row.ratio.value:.2f} ({row.ratio.lo:.2f} to {row.ratio.hi:.2f})"
    speeds = row.lying_tflops, row.best_tflops, row.how or "by default"
    return (row.operands, f"{row.n:,}", row.ours_tflops, f"`{row.kernel}`", *speeds, ratio, row.verdict)


def _remarks(rows: Sequence[Headline]) -> Iterator[str]:
    """Where the best of cuBLAS was not measured beside ours, or hardly tuned."""
    for tuned, words in REMARKS.items():
        if named := [row.label for row in rows if row.tuned == tuned]:
            yield words.format("; ".join(named))
    if named := [row.label for row in rows if row.tuned == "here" and row.default_ms >= LONG_MS]:
        yield HARDLY_TUNED.format("; ".join(dict.fromkeys(named)))


def labels(rows: Sequence[Headline]) -> Mapping[Headline, str]:
    """The label of each row, with its kernel if there are several for the same operands."""
    counted = Counter(row.label for row in rows)
    return {row: f"{row.label}, {row.kernel}" if counted[row.label] > 1 else row.label for row in rows}


def lost_by(rows: Sequence[Headline]) -> list[Headline]:
    """Rows in which cuBLAS is faster beyond doubt, the largest loss first."""
    return sorted((row for row in rows if row.verdict == "cuBLAS"), key=lambda row: row.ratio.value)


def losses(rows: Sequence[Headline]) -> str:
    """The losses in words: where, and by how much."""
    lost, named = lost_by(rows), labels(rows)
    even = sum(row.verdict == "even" for row in rows)
    won = sum(row.verdict == "ours" for row in rows)
    listed = f": {'; '.join(f'{named[row]}: {row.ratio.value:.2f}' for row in lost)}" if lost else ""
    return (
        f"Of {len(rows)} rows, ours is faster in {won}, as fast in {even}, and slower in {len(lost)}{listed}. "
        f"{_at_odd_sizes(rows)}At large aligned sizes of 16-bit and 8-bit floats both run at the chip's power limit. "
        "`fp32_emulated` is fast on data of ordinary spread; a section below has its speed on other data. "
        "A small product, or a single one, costs more on its way over HTTP than on the device: the sections on the "
        "service have those times. Own a GPU and have its data there already? Then call cuBLAS."
    )


def _at_odd_sizes(rows: Sequence[Headline]) -> str:
    """How often padding makes cuBLAS as fast as ours, or faster."""
    odd = [row for row in rows if row.n % 2 and row.operands in ("float16", "bfloat16")]
    held = sum(row.verdict != "ours" for row in odd)
    if not held:
        return ""
    return (
        f"In {held} of {len(odd)} rows of 16-bit types at odd sizes, cuBLAS at its best, which pads them, is as fast "
        "or faster; the service then still saves you the padding. "
    )
