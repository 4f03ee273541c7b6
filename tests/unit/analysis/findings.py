"""A benchmark's findings, made: what two rounds of a recorded H200 run would have left in the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.benchmarks.cases import LIBRARY_OF_ACCURACY, Case
from jobs.benchmarks.findings import attempt_name, ceiling_name, record_name, samples_name
from jobs.benchmarks.records import (
    AttemptInfo,
    BenchmarkSummary,
    CaseRecord,
    Ceiling,
    Checked,
    CopyFigures,
    DeviceState,
    LaunchFigures,
    Samples,
)
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.models import JobRecord, Progress
from jobs.states import JobState
from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from tests.support.recorded import H200_CATALOGUE

STARTED = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
JOB_ID = "job_" + "ab" * 16
DOCUMENT: Mapping[str, Any] = json.loads(H200_CATALOGUE.read_text())
SPREAD = (0.995, 0.997, 0.998, 0.999, 1.0, 1.0, 1.001, 1.002, 1.004, 1.01)  # of samples around their median


def spec(**fields: Any) -> BenchmarkSpec:
    shapes = sorted({row["n"] for row in DOCUMENT["records"]})
    given = {"title": "The ladder", "kernels": "ladder", "shapes": shapes, "dtypes": ["float32", "float16"]}
    return BenchmarkSpec.model_validate(given | {"transfers": {"enabled": True}} | fields)


def case_of(row: Mapping[str, Any]) -> Case:
    return Case(row["kernel"], row["config"], Problem(row["m"], row["n"], row["k"], row["dtype"]))


def baseline_of(row: Mapping[str, Any]) -> str | None:
    accuracy = BY_NAME[row["kernel"]].accuracy[row["dtype"]]
    library = LIBRARY_OF_ACCURACY.get(accuracy, "cublas") if row["dtype"] == "float32" else "cublas"
    found = (one for one in DOCUMENT["records"] if one["kernel"] == library)
    same = (one for one in found if all(one[name] == row[name] for name in ("m", "n", "k", "dtype")))
    return next((case_of(one).id for one in same), None)


def record(row: Mapping[str, Any], round_number: int = 0, *, slower: float = 1.0, **fields: Any) -> CaseRecord:
    """Of one recorded row, as round `round_number` would have found it."""
    case, median_us = case_of(row), row["kernel_ms"] * 1e3 * slower
    problem = case.problem
    copies = {"h2d_ms": problem.operand_bytes / 5e7, "d2h_ms": problem.product_bytes / 5e7}
    given: dict[str, Any] = {
        "case": case.id,
        "round": round_number,
        "attempt": 1,
        "kernel": case.kernel,
        "config": dict(case.config),
        "device_class": "gpu",
        "accuracy": case.accuracy,
        "baseline": baseline_of(row),
        "status": "ok",
        "cache": "cold",
        "flops": problem.flops,
        "bytes_min": problem.operand_bytes + problem.product_bytes,
        "kernel_ms": median_us / 1e3,
        "gflops": problem.flops / (median_us * 1e3),
        "ci95_lo_us": median_us * 0.998,
        "ci95_hi_us": median_us * 1.002,
        "samples": len(SPREAD),
        "stop_reason": "precise",
        "launch": LaunchFigures(
            registers=row.get("registers"),
            local_bytes=row.get("local_bytes"),
            dyn_smem_bytes=row.get("shared_bytes"),
            occupancy=row.get("occupancy"),
        ),
        "state": DeviceState(sm_clock_mhz=1900.0 + 20 * round_number, power_w_mean=500.0),
        "copies": CopyFigures(**copies, h2d_gb_s=50.0, d2h_gb_s=50.0),
        "before": Checked(mode="freivalds", passed=True, residual=2e-8, threshold=5e-7),
        "after": Checked(mode="freivalds", passed=True, residual=3e-8, threshold=5e-7),
        "error_vs_float64": row.get("error_vs_float64"),
        **{name: row[name] for name in ("dtype", "m", "n", "k")},
    }
    return CaseRecord.model_validate(given | fields)


def samples(one: CaseRecord) -> Samples:
    return Samples(time_us=tuple((one.kernel_ms or 0.0) * 1e3 * factor for factor in SPREAD))


def kept(records: Iterable[CaseRecord], *, ceilings: Iterable[Ceiling] = (), attempts: int = 1) -> dict[str, bytes]:
    """As the ledger keeps them."""
    found: dict[str, Any] = {}
    for one in records:
        found[record_name(one.round, one.case)] = one
        if one.kernel_ms:
            found[samples_name(one.round, one.case)] = samples(one)
    for ceiling in ceilings:
        found[ceiling_name(ceiling.name)] = ceiling
    for number in range(1, attempts + 1):
        found[attempt_name(number)] = attempt(number)
    return {name: one.model_dump_json().encode() for name, one in found.items()}


def attempt(number: int = 1) -> AttemptInfo:
    return AttemptInfo(
        attempt=number,
        worker=f"host/gpu0/{number}",
        started_at=STARTED.isoformat(),
        found=0,
        device=DOCUMENT["device"],
        environment=DOCUMENT["environment"],
    )


def two_rounds() -> list[CaseRecord]:
    """Of every recorded row; the second a hundredth slower."""
    return [record(row, number, slower=1 + number / 100) for number in (0, 1) for row in DOCUMENT["records"]]


def job(request: BenchmarkSpec | None = None, **fields: Any) -> JobRecord:
    cases = len(DOCUMENT["records"])
    given: dict[str, Any] = {
        "id": JOB_ID,
        "kind": "benchmark",
        "state": JobState.SUCCEEDED,
        "attempt": 1,
        "created_at": STARTED,
        "started_at": STARTED,
        "finished_at": STARTED + timedelta(minutes=4),
        "progress": Progress(done=2 * cases, total=2 * cases),
        "request": request or spec(),
        "device": DOCUMENT["device"]["name"],
        "benchmark": BenchmarkSummary(cases=cases, measurements=2 * cases, by_status={"ok": cases}),
    }
    return JobRecord(**(given | fields))
