"""A benchmark's results as a file of `kernels/published/`, which GET /v1/published serves from the package."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from analysis.condition import condition
from analysis.result_models import CaseResult, Results
from analysis.results import measurements
from analysis.roofline import measured_roofs, theoretical_roofs
from kernels.model.architectures import ARCHITECTURES

DIGITS, FEW_DIGITS, ERROR_DIGITS = 8, 5, 3  # significant ones


def publish(results: Results, name: str | None = None, *, title: str | None = None) -> dict[str, Any]:
    """A document of the schema in `kernels/published_records.py`; `name` is the file's, by default made from device and
    title.

    Batches are left out, because a published record describes one product. So are candidates of a search for configs
    that were discarded before their median was known.
    """
    title = title or results.job.title or f"Benchmark {results.job.id}"
    finished = results.job.finished_at
    device = _device(results)
    cublas = {one.case for one in results.records if one.kernel.startswith("cublas")}
    return {
        "name": name or _file_name(f"{device['name'] or 'device'} {title}"),
        "title": title,
        "report": None,
        "citation": {
            "title": title,
            "authors": [],
            "source": _source(results),
            "date": finished.date().isoformat() if finished else None,
            "note": " ".join(results.warnings) or None,
        },
        "device": device,
        "records": [_record(one, cublas) for one in results.records if one.batch == 1 and _is_shown(one, results)],
        "rooflines": _rooflines(results),
    }


def _is_shown(case: CaseResult, results: Results) -> bool:
    return results.spec.kind != "tune" or condition(case).kind != "not converged"


def _source(results: Results) -> str:
    """Where the results come from, and fields that are equal in all records."""
    preset = f"preset {results.spec.preset}" if results.spec.preset else "a spec of its own"
    return f"Measured by this project's own benchmark, {preset}: {results.job.id}."


def digits(value: float | None, count: int = DIGITS) -> float | None:
    return None if value is None else float(f"{value:.{count}g}")


def _file_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _device(results: Results) -> dict[str, Any]:
    device = results.device
    capability = device.get("compute_capability")
    theoretical, measured = device.get("theoretical") or {}, device.get("measured") or {}
    of_capability = (each for each in ARCHITECTURES.values() if list(each.compute_capability) == list(capability or ()))
    architecture = next(of_capability, None)
    return {
        "name": device.get("name"),
        "device_class": device.get("device_class", "gpu"),
        "compute_capability": list(capability) if capability else None,
        "multiprocessors": device.get("multiprocessors"),
        "clock_mhz": device.get("max_clock_mhz"),
        "memory_bytes": device.get("memory_bytes"),
        "memory_bus_bits": device.get("memory_bus_bits"),
        "memory_clock_mhz": device.get("memory_clock_mhz"),
        "memory_gb_s": theoretical.get("memory_gb_s"),
        "measured_memory_gb_s": measured.get("memory_gb_s"),
        "l2_bytes": device.get("l2_bytes"),
        "shared_bytes_per_block": device.get("shared_bytes_per_block"),
        "registers_per_block": device.get("registers_per_block"),
        "max_threads_per_multiprocessor": architecture.threads if architecture else None,
        "peak_gflops": dict(theoretical.get("gflops") or {}),
        "versions": dict(device.get("versions") or {}),
    }


def _record(case: CaseResult, cublas: Container[str | None]) -> dict[str, Any]:
    launch, copies, ratio = case.launch, case.copies, case.fraction_of_baseline
    shared = (launch.static_smem_bytes, launch.dyn_smem_bytes)
    return {
        "kernel": case.kernel,
        "label": case.kernel,
        "section": case.dtype,
        "device_class": case.device_class,
        "dtype": case.dtype,
        "config": dict(case.config),
        "m": case.m,
        "n": case.n,
        "k": case.k,
        "status": case.status,
        "reason": case.reason,
        "condition": kind if (kind := condition(case).kind) != "no figure" else "clean",
        "gflops": digits(case.gflops),
        "kernel_ms": digits(case.kernel_ms),
        "h2d_ms": digits(copies.h2d_ms) if copies else None,
        "d2h_ms": digits(copies.d2h_ms) if copies else None,
        "total_ms": digits(case.kernel_ms + copies.h2d_ms + copies.d2h_ms) if copies and case.kernel_ms else None,
        "samples": case.samples or None,
        "sm_clock_mhz": digits(case.state.sm_clock_mhz, FEW_DIGITS),
        "fraction_of_cublas": digits(ratio.value, FEW_DIGITS) if ratio and case.baseline in cublas else None,
        "interval_ms": [digits(each / 1e3, FEW_DIGITS) for each in (case.time_us.min, case.time_us.q3)]
        if case.time_us
        else None,
        "error_vs_float64": digits(case.error_vs_float64, ERROR_DIGITS),
        "worst_row_error": digits(case.worst_row_error, ERROR_DIGITS),
        "registers": launch.registers,
        "local_bytes": launch.local_bytes,
        "shared_bytes": None if shared == (None, None) else sum(part or 0 for part in shared),
        "occupancy": launch.occupancy,
    }


def _rooflines(results: Results) -> list[dict[str, Any]]:
    """Roofs of every element type that was measured, theoretical and measured, if both roofs are known."""
    found = measurements(results)
    return [
        {
            "label": f"{dtype}, {roofs.kind}",
            "dtype": dtype,
            "peak_gflops": roofs.gflops,
            "memory_gb_s": roofs.memory_gb_s,
            "section": "Device",
            "ridge_flop_per_byte": roofs.ridge,
            "q_flop_per_word": roofs.ops_per_word(),
        }
        for dtype, device in {one.dtype: one.device for one in found}.items()
        for roofs in (theoretical_roofs(device, dtype), measured_roofs(device, dtype))
        if roofs.ridge is not None
    ]
