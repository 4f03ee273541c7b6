"""Recorded results as measurements, and measurements made for a test."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from analysis.curves import Curve, curves
from analysis.measurement import Device, Measurement
from analysis.sources import from_catalogue, from_publication
from kernels.published import PUBLISHED

H200_CATALOGUE = Path(__file__).parent.parent / "unit" / "data" / "h200_catalogue.json"  # a few kernels of one run
T4 = Device(name="NVIDIA T4", multiprocessors=40)


@cache
def report(number: str) -> tuple[Measurement, ...]:
    (publication,) = (one for one in PUBLISHED.values() if one.report == number)
    return from_publication(publication)


@cache
def h200() -> tuple[Measurement, ...]:
    return from_catalogue(json.loads(H200_CATALOGUE.read_text()))


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
