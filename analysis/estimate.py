"""The extent of a benchmark before it runs: cases, operations, and an estimate of the time.

It is only an estimate, because the speed is not known in advance. A GPU's kernels are assumed to run as in the results
that ship with the package: those of the same model at the nearest size, if there are any; else those of the model that
this project's own results come from, scaled by the roofs of the two. A CPU is assumed to reach 30 GFLOPS per core in
float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, log

from jobs.benchmarks.cases import Case, expand
from jobs.benchmarks.spec import BenchmarkSpec, TimingSpec
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceClass
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.published import PUBLISHED

REFERENCE = "NVIDIA H200"  # the model of this project's own results
Points = Sequence[tuple[float, float]]  # operations of a product, GFLOPS

# ---- assumed, none of it measured ----
CPU_GFLOPS_PER_CORE = 30.0
CPU_SPEED: Mapping[DTypeName, float] = {  # over float32: half as many lanes, or widened and narrowed on the way
    "float32": 1.0,
    "float64": 0.5,
    "float16": 0.5,
    "bfloat16": 0.5,
    "int8": 0.5,
    "int32": 0.1,
    "float8_e4m3": 0.5,
    "complex64": 1.0,
    "complex128": 0.5,
}
BESIDE_S: Mapping[DeviceClass, float] = {"gpu": 0.5, "cpu": 0.1}  # a case's operands, both checks, its record
BETWEEN_S: Mapping[DeviceClass, float] = {"gpu": 1e-3, "cpu": 5e-4}  # samples: flushing the L2, waiting
USUAL_SAMPLES: Mapping[DeviceClass, int] = {"gpu": 30, "cpu": 64}  # until the median is precise, or no longer gets so
SHORTEST_SAMPLE_S = 1e-4  # shorter launches are put together
COPIES = 10
LINK_BYTES_PER_S, PAGEABLE_BYTES_PER_S = 20e9, 5e9
PROCESS_S = 4.0  # to start one with CUDA in it
HALVING_TIMING = TimingSpec(warmup_ms=20.0, min_samples=4, max_samples=8, min_time_s=0.0)  # when configs are chosen
CEILINGS_S: Mapping[DeviceClass, float] = {"gpu": 60.0, "cpu": 15.0}


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The extent of a benchmark on a device."""

    cases: int  # in all; for `kind: tune` kernels times problems
    measurements: int  # cases times rounds; for `kind: tune` an estimate that includes the search for configs
    skipped: int  # cases that cannot run there
    flops: float  # at the minimum number of samples
    estimate_s: float


def plan(spec: BenchmarkSpec, device: DeviceInfo, *, max_cases: int | None = None) -> BenchmarkPlan:
    """Raises InvalidRequest, InvalidConfig, BenchmarkTooLarge as `expand` does."""
    if spec.kind == "ceilings":
        return BenchmarkPlan(0, 0, 0, 0.0, CEILINGS_S[device.device_class])
    cases = expand(spec, device, limit=max_cases)
    measured = [case for case in cases if case.skip is None]
    rounds, halving_rounds = spec.timing.rounds, {case.id: _halving_rounds(case, spec) for case in cases}
    seconds = sum(rounds * case_s(case, spec, device) for case in measured)
    if spec.kind == "tune":
        in_halving_rounds = spec.model_copy(update={"timing": HALVING_TIMING})
        seconds += sum(halving_rounds[case.id] * case_s(case, in_halving_rounds, device) for case in measured)
    min_samples = spec.timing.min_samples
    return BenchmarkPlan(
        cases=len(cases),
        measurements=sum(rounds + halving_rounds[case.id] for case in cases),
        skipped=len(cases) - len(measured),
        flops=float(sum(case.problem.flops * (rounds + halving_rounds[case.id]) * min_samples for case in measured)),
        estimate_s=round(seconds, 1),
    )


def _halving_rounds(case: Case, spec: BenchmarkSpec) -> int:
    """The number of short measurements that choose the config of a tuned kernel: one for each config, then more for the
    better ones."""
    count = _config_count(case.kernel)
    return 2 * min(spec.tune.budget, count) if spec.kind == "tune" and count > 1 else 0


@cache
def _config_count(kernel: str) -> int:
    return sum(1 for _ in BY_NAME[kernel].configs())


def case_s(case: Case, spec: BenchmarkSpec, device: DeviceInfo) -> float:
    """Seconds that one measurement of the case may take."""
    kind, problem = device.device_class, case.problem
    launch_s = problem.flops / (gflops(case.kernel, problem, device) * 1e9)
    seconds = BESIDE_S[kind] + _sampling_s(launch_s, spec.timing, kind)
    if spec.verify == "full":
        in_float64 = replace(problem, dtype="float64")
        seconds += problem.flops / (gflops("cublas" if kind == "gpu" else "cpu_blas", in_float64, device) * 1e9)
    if spec.fresh_process:
        seconds += PROCESS_S
    if kind == "gpu":
        seconds += _copies_s(problem, spec) + (spec.energy.window_s if spec.energy.enabled else 0.0)
    return seconds


def _sampling_s(launch_s: float, timing: TimingSpec, kind: DeviceClass) -> float:
    sample_s = max(launch_s, SHORTEST_SAMPLE_S)
    enough = min(ceil(timing.min_time_s / sample_s), USUAL_SAMPLES[kind])
    samples = min(max(enough, timing.min_samples), timing.max_samples)
    warm_up_s = max(3 * launch_s, timing.warmup_ms / 1e3)
    return warm_up_s + max(min(samples * (sample_s + BETWEEN_S[kind]), timing.timeout_s), sample_s)


def _copies_s(problem: Problem, spec: BenchmarkSpec) -> float:
    if not spec.transfers.enabled:
        return 0.0
    bytes_moved = COPIES * (problem.operand_bytes + problem.product_bytes)
    return bytes_moved / LINK_BYTES_PER_S + (bytes_moved / PAGEABLE_BYTES_PER_S if spec.transfers.pageable else 0.0)


# ---- how fast a kernel may be ----
def gflops(kernel: str, problem: Problem, device: DeviceInfo) -> float:
    """An estimate, never 0."""
    if device.device_class == "cpu":
        return CPU_GFLOPS_PER_CORE * (device.cores or 1) * CPU_SPEED[problem.dtype]
    if (published := _published(device.name).get((kernel, problem.dtype))) is not None:
        return _nearest(published, problem)
    dtype, points = _reference_points(kernel, problem.dtype)
    return max(_nearest(points, problem) * _scale(device, dtype, problem.dtype), 1.0)


def _nearest(points: Points, problem: Problem) -> float:
    """The speed of the product nearest in size, measured in doublings."""
    return min(points, key=lambda point: abs(log(point[0] / problem.flops)))[1]


@cache
def _published(device: str) -> Mapping[tuple[str, DTypeName], Points]:
    """The results of that model that ship with the package."""
    found: dict[tuple[str, DTypeName], list[tuple[float, float]]] = {}
    for publication in PUBLISHED.values():
        if publication.device.name != device:
            continue
        for record in publication.records:
            if record.kernel and record.dtype and record.gflops and record.m and record.n and record.k:
                point = (2.0 * record.m * record.n * record.k, record.gflops)
                found.setdefault((record.kernel, record.dtype), []).append(point)
    return found


def _reference_points(kernel: str, dtype: DTypeName) -> tuple[DTypeName, Points]:
    """Speeds of the kernel in that element type, or in the type that was measured instead. For a kernel that was not
    measured, those of the simplest one."""
    recorded = _published(REFERENCE)
    name = kernel if any(name == kernel for name, _ in recorded) else "naive"
    known = dtype if (name, dtype) in recorded else next(known for other, known in recorded if other == name)
    return known, recorded[name, known]


def _scale(device: DeviceInfo, measured: DTypeName, asked: DTypeName) -> float:
    """The factor from the recorded device and element type to the requested ones: the ratio of roofs (of a complex
    type, those of its parts), else of multiprocessors. A type without a known roof counts as equally fast as the
    measured one."""
    reference = next(one.device for one in PUBLISHED.values() if one.device.name == REFERENCE)
    recorded, multiprocessors = reference.peak_gflops, reference.multiprocessors
    asked, measured = DTYPES[asked].real, DTYPES[measured].real
    known = recorded.get(measured)
    if known is not None and (peak := device.theoretical.gflops.get(asked)) is not None:
        return peak / known
    between_types = recorded.get(asked, known) / known if known is not None else 1.0
    return between_types * (
        device.multiprocessors / multiprocessors if device.multiprocessors and multiprocessors else 1
    )
