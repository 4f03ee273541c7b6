"""Turns a benchmark request into a job: checks, bounds, places and records it. For worker threads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import orjson

from analysis.estimate import BenchmarkPlan, plan
from jobs.benchmarks.cases import check_baseline, check_named
from jobs.benchmarks.magnitudes import check_magnitudes
from jobs.benchmarks.presets import PRESETS
from jobs.benchmarks.size import COUNTLESS, max_cases
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import BenchmarkTooLarge, MatmulError, NoWorkerForKernel, NoWorkers, StoreFull
from jobs.fleet.workers import DeviceInfo, WorkerInfo
from jobs.ledger.fields import note_estimate
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.limits import NewBenchmark
from jobs.settings import HOUR_S, Settings
from kernels.model.kernel import DeviceClass
from service.benchmarks.body import BenchmarkInput, read_benchmark
from service.benchmarks.placement import Placed, place
from service.benchmarks.views import DryRun, PresetList, PresetView
from service.context import Context
from service.submit.job import Receipt, replayed, submit_job

COUNTED_OUT = 20  # times the limit: a spec that may exceed this is refused without expanding it
EXPANDED = 2  # times the limit: counting stops there
ROUGH = 10  # an estimate is rough: a benchmark is refused if its own is so many times the time limit
MIN_CASE_S = 0.1  # for the sentence that refuses it


def submit(context: Context, owner: str, key: str | None, body: bytes) -> Receipt:
    """Submits a benchmark. Raises InvalidRequest and its subclasses, what `place` raises, and what the ledger
    raises.
    """
    asked, settings = read_benchmark(body), context.settings
    idempotency = None if key is None else IdempotencyKey(key, _fingerprint(asked))
    if (receipt := replayed(context, owner, idempotency)) is not None:
        return receipt
    placed = _placed(context, asked)
    found = bounded(placed.spec, placed.worker.device, settings)
    new = NewBenchmark(
        id=context.new_job_id(),
        owner=owner,
        queue=placed.worker.bench_queue,
        timeout_s=settings.benchmark_timeout_s,
        request=placed.spec,
        flops=found.flops,
    )
    receipt = submit_job(context, new, idempotency)
    if not receipt.replayed:
        with suppress(StoreFull):  # the estimate is not worth an error
            note_estimate(
                context.ledger.scripts, receipt.job_id, seconds=found.estimate_s, measurements=found.measurements
            )
            return replace(receipt, found=context.ledger.get(receipt.job_id))
    return receipt


def _placed(context: Context, asked: BenchmarkInput) -> Placed:
    try:
        return place(asked, context.workers.now())
    except (NoWorkers, NoWorkerForKernel) as refusal:
        raise context.fleet.explained(refusal) from None


def dry_run(context: Context, body: bytes) -> DryRun:
    """What `submit` would record, and its size. Raises the same, except for what the ledger raises."""
    placed = _placed(context, read_benchmark(body))
    return _dry_run(placed, bounded(placed.spec, placed.worker.device, context.settings))


def presets(context: Context) -> PresetList:
    """All presets, each with its size on the live workers. Raises StoreUnavailable."""
    workers = context.workers.now()
    return PresetList(presets=tuple(_preset(name, workers, context.settings) for name in PRESETS))


def _preset(name: str, workers: Sequence[WorkerInfo], settings: Settings) -> PresetView:
    preset, asked = PRESETS[name], read_benchmark(orjson.dumps({"preset": name}))
    device_class: DeviceClass = "gpu"
    try:
        placed = place(asked, workers)
        found = _dry_run(placed, bounded(placed.spec, placed.worker.device, settings))
        device_class = placed.worker.device.device_class
    except MatmulError:  # no live worker for it now, or more than this server takes
        found = None
    return PresetView(
        name=name,
        summary=preset.summary_on(device_class),
        redoes=preset.redoes,
        spec=found.spec if found else asked.forms["gpu"],
        device=found.device if found else None,
        cases=found.cases if found else None,
        estimate_s=found.estimate_s if found else None,
    )


def _dry_run(placed: Placed, found: BenchmarkPlan) -> DryRun:
    return DryRun(
        cases=found.cases,
        measurements=found.measurements,
        skipped=found.skipped,
        flops=found.flops,
        estimate_s=found.estimate_s,
        device=placed.worker.device.name,
        spec=placed.spec,
    )


def _fingerprint(asked: BenchmarkInput) -> str:
    """A fingerprint of the request that does not depend on its formatting."""
    text = orjson.dumps(["POST /v1/benchmarks", asked.document], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def bounded(spec: BenchmarkSpec, device: DeviceInfo, settings: Settings) -> BenchmarkPlan:
    """The size of the benchmark. Raises BenchmarkTooLarge beyond the settings' limits, and what `check_named`,
    `check_baseline`, `check_magnitudes` and `plan` raise.
    """
    limit = settings.max_benchmark_cases
    upper_bound = max_cases(spec, device.device_class) * spec.timing.rounds
    if upper_bound > COUNTED_OUT * limit:
        count = f"{COUNTLESS} or more" if upper_bound >= COUNTLESS else str(upper_bound)
        min_s = f"{min(upper_bound, COUNTLESS) * MIN_CASE_S:.0f}"
        raise _too_large(f"up to {count} measurements (cases times rounds), {min_s} s or more", str(limit))
    check_named(spec)
    check_baseline(spec, device.traits)
    check_magnitudes(spec)
    try:
        found = plan(spec, device, max_cases=EXPANDED * limit // spec.timing.rounds)
    except BenchmarkTooLarge:
        raise _too_large(f"more than {EXPANDED * limit} measurements (cases times rounds)", str(limit)) from None
    if found.measurements > limit:
        size = f"{found.measurements} measurements (cases times rounds), about {found.estimate_s:.0f} s"
        raise _too_large(size, str(limit))
    if found.flops > settings.max_benchmark_flops:
        size = f"{found.flops:.3g} operations at the least number of samples, about {found.estimate_s:.0f} s"
        raise _too_large(size, f"{settings.max_benchmark_flops:.3g}")
    if found.estimate_s > ROUGH * settings.benchmark_timeout_s:
        size = f"about {found.estimate_s / HOUR_S:,.0f} hours of work for {device.name}"
        raise _too_large(size, f"{settings.benchmark_timeout_s / HOUR_S:g} in one attempt")
    return found


def _too_large(size: str, limit: str) -> BenchmarkTooLarge:
    return BenchmarkTooLarge(
        f"The benchmark has {size}; this server takes at most {limit}, so ask for fewer sizes, configs or rounds."
    )
