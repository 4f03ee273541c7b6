"""From the findings of a benchmark's attempts to its results: rounds pooled, ratios paired, roofs beside the speeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import orjson

from analysis.answers.answer import answers
from analysis.condition import condition
from analysis.curves import speed_ups
from analysis.measurement import WIDEST_ACCESS_BYTES, Device, Measurement, row_alignment
from analysis.pooling import pooled
from analysis.result_models import CaseResult, JobHead, Ratio, Results, RoundFigures
from analysis.roofline import Roofs, measured_roofs, moved_bytes, theoretical_roofs, units_of
from analysis.sources import device_with_ceilings, recorded_device
from jobs.benchmarks.cases import problems
from jobs.benchmarks.findings import Findings, read_findings
from jobs.benchmarks.records import CaseRecord
from jobs.benchmarks.spec import BenchmarkSpec, DataSpec
from jobs.models import JobRecord
from jobs.states import JobState
from kernels.catalog import KERNEL_NAMES
from kernels.model.numerics import DTYPES

__all__ = ["CaseResult", "Results", "collect", "from_json", "measurements", "to_json"]


def collect(record: JobRecord, findings: Mapping[str, bytes]) -> Results:
    """Results of a benchmark's job in any state; `findings` as the ledger keeps them."""
    assert isinstance(record.request, BenchmarkSpec)
    known = read_findings(findings)
    last = known.attempts[-1] if known.attempts else None
    results = Results(
        job=_head(record, record.request),
        complete=_missing(record, known) is None,
        spec=record.request,
        device=dict(last.device) if last else {},
        environment=dict(last.environment) if last else {},
        attempts=known.attempts,
        warnings=_warnings(record, known),
        records=_pooled_cases(record.request, known),
        ceilings=known.ceilings,
    )
    judged = results.model_copy(update={"records": _judged(results)})
    return judged.model_copy(update={"answers": answers(measurements(judged))})


def to_json(results: Results) -> bytes:
    """One document; `from_json` reads it again. Records are taken one by one: other threads of the process wait for no
    more than one of them, not for thousands."""
    document = results.model_copy(update={"records": ()}).model_dump(mode="json")
    document["records"] = [record.model_dump(mode="json") for record in results.records]
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def from_json(text: str | bytes) -> Results:
    """Raises pydantic.ValidationError if it is not such a document."""
    return Results.model_validate_json(text)


def measurements(results: Results) -> tuple[Measurement, ...]:
    """The cases in the form that all other functions here take."""
    device = device_with_ceilings(recorded_device(results.device), results.ceilings)
    return tuple(_measurement(result, device, results.spec.data) for result in results.records)


def _head(record: JobRecord, spec: BenchmarkSpec) -> JobHead:
    return JobHead(
        id=record.id,
        state=record.state,
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        title=spec.title or spec.preset,
    )


def _missing(record: JobRecord, findings: Findings) -> str | None:
    """Why the results are incomplete; None if they are complete."""
    if record.state is not JobState.SUCCEEDED:
        done = f"after {record.progress.done} of {record.progress.total} steps"
        why = f": {record.error.detail}" if record.error else "."
        return f"The job is {record.state}, {done}{why} What was measured by then stands here."
    cases = len({finding.case for finding in findings.records} | {ceiling.name for ceiling in findings.ceilings})
    if record.benchmark is not None and cases < record.benchmark.cases:
        return f"Of {record.benchmark.cases} cases {cases} are still kept."
    return None


def _warnings(record: JobRecord, findings: Findings) -> tuple[str, ...]:
    missing = _missing(record, findings)
    return ((missing,) if missing else ()) + (record.benchmark.warnings if record.benchmark else ())


def _pooled_cases(spec: BenchmarkSpec, findings: Findings) -> tuple[CaseResult, ...]:
    by_case: dict[str, list[CaseRecord]] = {}
    for record in findings.records:
        by_case.setdefault(record.case, []).append(record)
    in_round = {(record.round, record.case): record for record in findings.records}
    results = (_pooled_case(_final(rounds, spec), in_round, findings) for rounds in by_case.values())
    return tuple(sorted(results, key=_order(spec)))


def _final(rounds: Sequence[CaseRecord], spec: BenchmarkSpec) -> Sequence[CaseRecord]:
    """The records without the few samples of a search for configs, if the configs that it chose were timed
    afterwards."""
    final = [record for record in rounds if record.round < spec.timing.rounds]
    return final or rounds[-1:]


def _order(spec: BenchmarkSpec) -> Any:
    """A sort key: problems in the order of the spec, kernels in the catalogue's order, configs by their values."""
    place = {(p.dtype, p.m, p.n, p.k, p.batch): number for number, p in enumerate(problems(spec))}
    kernel = {name: number for number, name in enumerate(KERNEL_NAMES)}

    def key(result: CaseResult) -> tuple[Any, ...]:
        shape = (result.m, result.n, result.k, result.batch)
        at = place.get((result.dtype, *shape), len(place))
        return at, result.dtype, shape, kernel.get(result.kernel, len(kernel)), list(result.config.items())

    return key


def _pooled_case(
    rounds: Sequence[CaseRecord], in_round: Mapping[tuple[int, str], CaseRecord], findings: Findings
) -> CaseResult:
    case = CaseResult.model_validate(pooled(rounds, findings.samples))
    of_baseline = [(record, in_round.get((record.round, record.baseline or ""))) for record in rounds]
    ratios = [_ratio(record, base) for record, base in of_baseline]
    figures = tuple(_round(record, ratio) for record, ratio in zip(rounds, ratios, strict=True))
    known = [ratio for ratio in ratios if ratio is not None] if case.status == "ok" else []
    times = case.time_us
    return case.model_copy(
        update={
            "rounds": figures,
            "gflops_lo": case.flops / (times.q3 * 1e3) if times else None,
            "gflops_hi": case.flops / (times.q1 * 1e3) if times else None,
            "fraction_of_baseline": _together(known),
        }
    )


def _ratio(record: CaseRecord, baseline: CaseRecord | None) -> Ratio | None:
    """The ratio of two cases in the same round."""
    if baseline is None or {record.status, baseline.status} != {"ok"} or not (record.kernel_ms and baseline.kernel_ms):
        return None
    lo, hi = _ends_ms(record)
    baseline_lo, baseline_hi = _ends_ms(baseline)
    if record.case == baseline.case:
        return Ratio(value=1.0, lo=1.0, hi=1.0)
    return Ratio(value=baseline.kernel_ms / record.kernel_ms, lo=baseline_lo / hi, hi=baseline_hi / lo)


def _ends_ms(record: CaseRecord) -> tuple[float, float]:
    """95 % interval of the median; of fewer than six samples, which have none, the fastest and the slowest one."""
    lo_us, hi_us, spread = record.ci95_lo_us, record.ci95_hi_us, record.time_us
    if lo_us is not None and hi_us is not None:
        return lo_us / 1e3, hi_us / 1e3
    median_ms = record.kernel_ms or 0.0
    return (spread.min / 1e3, spread.max / 1e3) if spread else (median_ms, median_ms)


def _together(ratios: Sequence[Ratio]) -> Ratio | None:
    if not ratios:
        return None
    middle = median(ratio.value for ratio in ratios)
    return Ratio(value=middle, lo=min(ratio.lo for ratio in ratios), hi=max(ratio.hi for ratio in ratios))


def _round(record: CaseRecord, ratio: Ratio | None) -> RoundFigures:
    return RoundFigures(
        round=record.round,
        attempt=record.attempt,
        status=record.status,
        kernel_ms=record.kernel_ms,
        sm_clock_mhz=record.state.sm_clock_mhz,
        fraction_of_baseline=ratio.value if ratio else None,
    )


def _judged(results: Results) -> tuple[CaseResult, ...]:
    """The result with everything that follows from other cases and from the device."""
    measured = measurements(results)
    over_naive = speed_ups(measured, "naive")
    together = zip(results.records, measured, over_naive, strict=True)
    return tuple(
        result.model_copy(update=dict(_derived(result, measurement, ratio))) for result, measurement, ratio in together
    )


def _derived(result: CaseResult, at: Measurement, over_naive: float | None) -> Iterator[tuple[str, Any]]:
    compulsory = moved_bytes(at, "compulsory")
    yield "speedup_vs_naive", over_naive
    yield "ai_min", result.flops / compulsory if compulsory else None
    if not result.gflops:  # a config that cannot run may have no tiles
        return
    tiles = moved_bytes(at, "tile")
    yield "ai_tile", result.flops / tiles if tiles else None
    roofs = roofs_of(at)
    roof = roofs.attainable(result.flops / compulsory) if compulsory else None
    yield "roof_gflops", roof
    yield "roof_kind", roofs.kind if roof else None
    yield "fraction_of_roof", result.gflops / roof if roof else None
    if result.state.sm_clock_mhz:
        yield "gflops_per_ghz", result.gflops / (result.state.sm_clock_mhz / 1e3)
    if result.energy_mj:
        yield "gflops_per_w", result.flops / (result.energy_mj * 1e6)


def roofs_of(measurement: Measurement) -> Roofs:
    """Measured roofs if the device has both, else theoretical ones."""
    units = units_of(measurement)
    measured = measured_roofs(measurement.device, units)
    return measured if measured.ridge else theoretical_roofs(measurement.device, units)


def _measurement(result: CaseResult, device: Device, data: DataSpec) -> Measurement:
    times, launch, copies, check = result.time_us, result.launch, result.copies, result.after or result.before
    shared = (launch.static_smem_bytes, launch.dyn_smem_bytes)
    return Measurement(
        label=result.kernel,
        kernel=result.kernel,
        dtype=result.dtype,
        m=result.m,
        n=result.n,
        k=result.k,
        batch=result.batch,
        accuracy=result.accuracy,
        config=result.config,
        device=device,
        status=result.status,
        condition=condition(result),
        kernel_ms=result.kernel_ms,
        gflops=result.gflops,
        fastest_ms=times.min / 1e3 if times else None,
        q1_ms=times.q1 / 1e3 if times else None,
        q3_ms=times.q3 / 1e3 if times else None,
        slowest_ms=times.max / 1e3 if times else None,
        round_ms=tuple(each.kernel_ms for each in result.rounds if each.kernel_ms),
        h2d_ms=copies.h2d_ms if copies else None,
        d2h_ms=copies.d2h_ms if copies else None,
        registers=launch.registers,
        local_bytes=launch.local_bytes,
        shared_bytes=None if shared == (None, None) else sum(part or 0 for part in shared),
        occupancy=launch.occupancy,
        resident_blocks=launch.resident_blocks,
        sm_clock_mhz=result.state.sm_clock_mhz,
        error_vs_float64=result.error_vs_float64,
        worst_row_error=result.worst_row_error,
        row_alignment_bytes=_row_alignment(result),
        cache=result.cache,
        layout=result.layout if result.device_class == "gpu" else None,
        data=data.distribution,
        residual=check.residual if check else None,
        residual_limit=check.threshold if check else None,
    )


def _row_alignment(result: CaseResult) -> int | None:
    """Padded rows have their own pitch."""
    if result.device_class != "gpu":
        return None
    itemsize = DTYPES[result.dtype].itemsize
    return row_alignment((result.n | result.k) * itemsize) if result.layout == "dense" else WIDEST_ACCESS_BYTES
