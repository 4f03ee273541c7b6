"""Two benchmarks compared, as HTTP shows it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

from analysis.comparison.compare import CaseComparison, Comparison, Run, Verdict, compare, run_of
from analysis.measurement import Measurement
from analysis.results import Results
from jobs.base import Strict
from kernels.model.numerics import DTypeName
from kernels.published_records import Status


class ComparedFigures(Strict):
    """One run's figures of a case."""

    status: Status = Field(description="`ok`, or why there are no figures.")
    kernel_ms: float | None = Field(description="Median.")
    gflops: float | None = Field(description="Speed.")
    sm_clock_mhz: float | None = Field(description="Mean SM clock meanwhile.")


class ComparedKey(Strict):
    """The key that identifies a case."""

    kernel: str = Field(description="Name in the catalogue.", examples=["shared_tiled"])
    config: dict[str, int] = Field(description="Full tile config.", examples=[{"tile": 16}])
    dtype: DTypeName = Field(description="Element type of the operands.")
    m: int = Field(description="Rows of A and C.")
    n: int = Field(description="Columns of B and C.")
    k: int = Field(description="Columns of A, rows of B.")
    batch: int = Field(description="Products in one launch.")


class ComparedCase(ComparedKey):
    """A case that both runs have."""

    before: ComparedFigures = Field(description="In the run named by `compare`.")
    after: ComparedFigures = Field(description="In this run.")
    verdict: Verdict = Field(
        description="Of this run: `faster`, `slower`, `same`, `ambiguous` (these samples do not tell), "
        "`not comparable` (a run was disturbed, or they were not measured alike: `why` begins with the cause), or "
        "`unusable` (a run has no figure)."
    )
    ratio: float | None = Field(description="Speed over that of `compare`: above 1 is faster.", examples=[1.02])
    ratio_lo: float | None = Field(description="Lower end of what the samples leave open.")
    ratio_hi: float | None = Field(description="Upper end.")
    why: str = Field(description="The figures that the verdict rests on.")


class ComparedEnvironment(Strict):
    """A difference between the environments of the runs."""

    name: str = Field(description="Dotted name.", examples=["versions.cupy"])
    before: Any = Field(description="In the run named by `compare`; null where it does not say.")
    after: Any = Field(description="In this run; null where it does not say.")


class ComparisonView(Strict):
    """This run compared with the one named by `compare`."""

    before: str = Field(description="Id of the job named by `compare`.")
    after: str = Field(description="Id of this job.")
    complete: bool = Field(description="Whether both runs are whole.")
    counts: dict[Verdict, int] = Field(description="Cases by verdict.", examples=[{"same": 20}])
    cases: tuple[ComparedCase, ...] = Field(description="Cases that both have, in the order of the first.")
    only_before: tuple[ComparedKey, ...] = Field(description="Cases that the run named by `compare` alone has.")
    only_after: tuple[ComparedKey, ...] = Field(description="Cases that this run alone has.")
    environment: tuple[ComparedEnvironment, ...] = Field(description="Differences of device, clocks and versions.")


class RunId(NamedTuple):
    """A run's id, and whether the run is complete."""

    name: str
    complete: bool


def comparison(before: Results, after: Results) -> ComparisonView:
    ids = [RunId(each.job.id, each.complete) for each in (before, after)]
    return comparison_of(run_of(before), run_of(after), *ids)


def comparison_of(before: Run, after: Run, before_id: RunId, after_id: RunId) -> ComparisonView:
    """Compares two runs from any source."""
    found: Comparison = compare(before, after)
    return ComparisonView(
        before=before_id.name,
        after=after_id.name,
        complete=before_id.complete and after_id.complete,
        counts=found.counts,
        cases=tuple(map(_case, found.cases)),
        only_before=tuple(ComparedKey(**_key(one)) for one in found.only_before),
        only_after=tuple(ComparedKey(**_key(one)) for one in found.only_after),
        environment=tuple(
            ComparedEnvironment(name=one.name, before=one.before, after=one.after) for one in found.environment
        ),
    )


def _case(one: CaseComparison) -> ComparedCase:
    return ComparedCase(
        **_key(one.after),
        before=_figures(one.before),
        after=_figures(one.after),
        verdict=one.verdict,
        ratio=one.ratio,
        ratio_lo=one.ratio_interval.lo if one.ratio_interval else None,
        ratio_hi=one.ratio_interval.hi if one.ratio_interval else None,
        why=one.why,
    )


def _key(one: Measurement) -> dict[str, Any]:
    return {
        "kernel": one.kernel or one.label,
        "config": dict(one.config),
        "dtype": one.dtype,
        "m": one.m,
        "n": one.n,
        "k": one.k,
        "batch": one.batch,
    }


def _figures(one: Measurement) -> ComparedFigures:
    return ComparedFigures(status=one.status, kernel_ms=one.kernel_ms, gflops=one.gflops, sm_clock_mhz=one.sm_clock_mhz)
