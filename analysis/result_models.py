"""A benchmark's results as one document: the request, the device, and each case with its rounds pooled."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from analysis.answers.answer import Answer
from analysis.roofline import RoofKind
from jobs.base import Strict
from jobs.benchmarks.records import AttemptInfo, CaseRecord, Ceiling
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.states import JobState
from kernels.published_records import Status


class JobHead(Strict):
    """The job that took the measurements."""

    id: str = Field(description="The job's id.", examples=["job_0123456789abcdef0123456789abcdef"])
    state: JobState = Field(description="queued → running → succeeded | failed | cancelled.")
    created_at: datetime = Field(description="When it was accepted (UTC).")
    started_at: datetime | None = Field(None, description="When a worker last claimed it; null before.")
    finished_at: datetime | None = Field(None, description="When it reached its end; null before.")
    title: str | None = Field(None, description="Heading that the spec gives it, or its preset.")


class Ratio(Strict):
    """A ratio of speeds with its interval."""

    value: float = Field(description="Median of the ratios of the rounds.", examples=[0.92])
    lo: float = Field(
        description="Lower end, by the 95 % intervals of the medians in every round; by the fastest and the slowest "
        "sample of a round with fewer than six."
    )
    hi: float = Field(description="Upper end.")


class RoundFigures(Strict):
    """The figures of one round of a case."""

    round: int = Field(description="From 0.")
    attempt: int = Field(description="Attempt of the job that measured it.")
    status: Status = Field(description="`ok`, or why there are no figures.")
    kernel_ms: float | None = Field(None, description="Median of its samples.")
    sm_clock_mhz: float | None = Field(None, description="SM clock, mean over its samples.")
    fraction_of_baseline: float | None = Field(None, description="Speed over the baseline's of the same round.")


class CaseResult(CaseRecord):
    """One case: the samples of its rounds pooled, and what follows from them. The worst status counts."""

    round: int = Field(description="Last round that is in it, from 0.")
    attempt: int = Field(description="Last attempt that measured it.")
    ci95_lo_us: float | None = Field(
        None, description="95 % interval of the median, by order statistics; it encloses the median of every round."
    )
    gflops_lo: float | None = Field(None, description="Speed at the third quartile of the times.")
    gflops_hi: float | None = Field(None, description="Speed at the first quartile of the times.")
    rounds: tuple[RoundFigures, ...] = Field((), description="The rounds by themselves.")
    fraction_of_baseline: Ratio | None = Field(
        None, description="Speed over the baseline's, round by round; null without one."
    )
    speedup_vs_naive: float | None = Field(None, description="Speed over kernel `naive` at the same shape and type.")
    roof_gflops: float | None = Field(
        None, description="Least of the compute roof and what memory allows if each matrix moves once."
    )
    roof_kind: RoofKind | None = Field(None, description="Whether that roof was measured or is theoretical.")
    fraction_of_roof: float | None = Field(None, description="gflops / roof_gflops.")
    ai_min: float | None = Field(None, description="FLOP per byte if each matrix moves once.")
    ai_tile: float | None = Field(None, description="FLOP per byte that the tiles read from beyond the block.")
    gflops_per_ghz: float | None = Field(None, description="Speed for each GHz of the SM clock.")
    gflops_per_w: float | None = Field(None, description="By the energy counter: 10⁹ operations a joule.")


class Results(Strict):
    """All that a benchmark has measured so far."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    job: JobHead = Field(description="The job.")
    complete: bool = Field(description="Whether it succeeded and no case is missing.")
    spec: BenchmarkSpec = Field(description="What was asked.")
    device: dict[str, Any] = Field(description="As GET /v1/devices describes it; of the last attempt.")
    environment: dict[str, Any] = Field(description="Clocks, limits, versions, host; of the last attempt.")
    attempts: tuple[AttemptInfo, ...] = Field(description="Who measured, in order.")
    warnings: tuple[str, ...] = Field(description="What a reader should know.")
    answers: tuple[Answer, ...] = Field(
        (), description="What the results answer, for each element type and accuracy; what was measured most first."
    )
    records: tuple[CaseResult, ...] = Field(description="The cases, rounds pooled, in the order of the spec.")
    ceilings: tuple[Ceiling, ...] = Field(description="Roofs that were measured.")

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        return self.records
