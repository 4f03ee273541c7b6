"""Recorded results as measurements, and measurements made for a test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from analysis.curves import Curve, curves
from analysis.measurement import WIDEST_ACCESS_BYTES, Device, Measurement
from analysis.result_models import Results
from analysis.sources import accuracy_of, from_publication, recorded_device
from benchmarks.recorded import read
from kernels.published import PUBLISHED

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
H200_CATALOGUE = Path(__file__).parent.parent / "unit" / "data" / "h200_catalogue.json"  # some kernels of a run
T4 = Device(name="NVIDIA T4", multiprocessors=40)


@cache
def report(number: str) -> tuple[Measurement, ...]:
    (publication,) = (one for one in PUBLISHED.values() if one.report == number)
    return from_publication(publication)


@cache
def h200() -> tuple[Measurement, ...]:
    return from_run(json.loads(H200_CATALOGUE.read_text()))


def from_run(document: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """Its records in order."""
    device = recorded_device(document["device"])
    return tuple(_recorded(record, device) for record in document["records"])


def _recorded(record: Mapping[str, Any], device: Device) -> Measurement:
    return Measurement(
        label=record["kernel"],
        kernel=record["kernel"],
        dtype=record["dtype"],
        m=record["m"],
        n=record["n"],
        k=record["k"],
        accuracy=accuracy_of(record["kernel"], record["dtype"]),
        config=MappingProxyType(dict(record["config"])),
        device=device,
        kernel_ms=record["kernel_ms"],
        gflops=record["gflops"],
        fastest_ms=record.get("fastest_ms"),
        slowest_ms=record.get("slowest_ms"),
        registers=record.get("registers"),
        local_bytes=record.get("local_bytes"),
        shared_bytes=record.get("shared_bytes"),
        occupancy=record.get("occupancy"),
        error_vs_float64=record.get("error_vs_float64"),
        row_alignment_bytes=WIDEST_ACCESS_BYTES,  # that benchmark pads rows on the device
        cache="cold",  # and writes over the L2 before each sample
    )


def labelled(measurements: tuple[Measurement, ...], label: str) -> Curve:
    (curve,) = (one for one in curves(measurements) if one.label == label)
    return curve


def made(n: int = 1024, **fields: Any) -> Measurement:
    """A square float32 product by the naive kernel."""
    given: dict[str, Any] = {"label": "naive", "kernel": "naive", "dtype": "float32", "device": T4}
    return Measurement(**(given | {"m": n, "n": n, "k": n} | fields))


def timed(fastest_ms: float, kernel_ms: float, q3_ms: float | None, **fields: Any) -> Measurement:
    gflops = made(fields.get("n", 1024)).problem.flops / (kernel_ms * 1e6)
    times: dict[str, Any] = {"fastest_ms": fastest_ms, "kernel_ms": kernel_ms, "q3_ms": q3_ms, "gflops": gflops}
    return made(**(times | fields))


def recorded_results(name: str) -> Results:
    """A benchmark's results as they were recorded on an H200."""
    return Results.model_validate(read(RESULTS / "h200" / f"{name}.jsonl.gz"))
