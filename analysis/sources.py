"""Measurements from published tables, and devices in the form that results describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from analysis.condition import of_kind
from analysis.measurement import Device, Measurement, row_alignment
from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.roofs import measured_roofs
from jobs.fleet.workers import Ceilings
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from kernels.published_records import Publication, PublishedDevice, PublishedRecord

UNKNOWN_CPU = Device(device_class="cpu")


def accuracy_of(kernel: str | None, dtype: DTypeName) -> AccuracyName | None:
    """The accuracy class according to the catalogue."""
    entry = BY_NAME.get(kernel or "")
    return entry.accuracy.get(dtype) if entry else None


def published_device(device: PublishedDevice) -> Device:
    per, count = device.fp32_cores_per_multiprocessor, device.multiprocessors
    return Device(
        name=device.name,
        device_class=device.device_class,
        compute_capability=device.compute_capability,
        multiprocessors=count,
        cores=device.fp32_cores or (per * count if per and count else None),
        clock_mhz=device.clock_mhz,
        memory_bus_bits=device.memory_bus_bits,
        memory_clock_mhz=device.memory_clock_mhz,
        l2_bytes=device.l2_bytes,
        threads_per_multiprocessor=device.max_threads_per_multiprocessor,
        theoretical=Ceilings(memory_gb_s=device.memory_gb_s, gflops=dict(device.peak_gflops)),
        measured=Ceilings(memory_gb_s=device.measured_memory_gb_s),
    )


def from_publication(publication: Publication) -> tuple[Measurement, ...]:
    """The publication's records in order, without duplicates, and without those whose size or element type is not
    stated."""
    gpu = published_device(publication.device)
    of_class = {gpu.device_class: gpu}
    return tuple(
        measurement
        for record in publication.records
        if record.repeats is None
        and (measurement := _published(record, of_class.get(record.device_class, UNKNOWN_CPU))) is not None
    )


def measured(publication: Publication) -> list[Measurement]:
    """`from_publication`, with the roofs that were measured on the device."""
    peaks: dict[DTypeName, float] = {
        roof.dtype: roof.peak_gflops for roof in publication.rooflines if roof.label == f"{roof.dtype}, measured"
    }

    def with_peaks(device: Device) -> Device:
        return replace(device, measured=device.measured.model_copy(update={"gflops": peaks}))

    return [replace(each, device=with_peaks(each.device)) for each in from_publication(publication)]


def _published(record: PublishedRecord, device: Device) -> Measurement | None:
    if record.dtype is None or record.m is None or record.n is None or record.k is None:
        return None
    flops = Problem(record.m, record.n, record.k, record.dtype).flops
    kernel_ms, gflops = record.kernel_ms, record.gflops
    return Measurement(
        label=record.label,
        kernel=record.kernel,
        dtype=record.dtype,
        m=record.m,
        n=record.n,
        k=record.k,
        accuracy=accuracy_of(record.kernel, record.dtype),
        config=MappingProxyType(dict(record.config)),
        device=device,
        status=record.status,
        condition=of_kind(record.condition, record.status),
        kernel_ms=kernel_ms or (flops / (gflops * 1e6) if gflops else None),
        gflops=gflops or (flops / (kernel_ms * 1e6) if kernel_ms else None),
        h2d_ms=record.h2d_ms,
        d2h_ms=record.d2h_ms,
        registers=record.registers,
        local_bytes=record.local_bytes,
        shared_bytes=record.shared_bytes,
        occupancy=record.occupancy,
        sm_clock_mhz=record.sm_clock_mhz,
        fastest_ms=record.interval_ms[0] if record.interval_ms else None,
        q3_ms=record.interval_ms[1] if record.interval_ms else None,
        error_vs_float64=record.error_vs_float64,
        worst_row_error=record.worst_row_error,
        # The reports' programs store rows without padding: k elements in A, n in B.
        row_alignment_bytes=row_alignment((record.n | record.k) * DTYPES[record.dtype].itemsize),
    )


def recorded_device(device: Mapping[str, Any]) -> Device:
    """The device in a record of any age or an imported file, in the form that workers use. Fields of the wrong type
    count as unknown."""
    multiprocessors, cores, bus_bits, l2_bytes = (
        None if (count := _number(device.get(name))) is None else int(count)
        for name in ("multiprocessors", "cores", "memory_bus_bits", "l2_bytes")
    )
    return Device(
        name=_text(device.get("name")),
        uuid=_text(device.get("uuid")),
        device_class="cpu" if device.get("device_class") == "cpu" else "gpu",
        compute_capability=_capability(device.get("compute_capability")),
        multiprocessors=multiprocessors,
        cores=cores,
        clock_mhz=_number(device.get("max_clock_mhz")),
        memory_bus_bits=bus_bits,
        memory_clock_mhz=_number(device.get("memory_clock_mhz")),
        l2_bytes=l2_bytes,
        theoretical=_ceilings(device.get("theoretical")),
        measured=_ceilings(device.get("measured")),
    )


def _ceilings(recorded: Any) -> Ceilings:
    """The ceilings, not validated: a worker of another version may have written additional fields."""
    found = recorded if isinstance(recorded, Mapping) else {}
    speeds = found.get("gflops")
    gflops = {name: speed for name, speed in speeds.items() if _number(speed)} if isinstance(speeds, Mapping) else {}
    return Ceilings.model_construct(memory_gb_s=_number(found.get("memory_gb_s")), gflops=gflops)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _capability(value: Any) -> tuple[int, int] | None:
    match value:
        case [int(major), int(minor), *_]:
            return major, minor
    return None


def device_with_ceilings(device: Device, ceilings: Iterable[Ceiling]) -> Device:
    """The device with the roofs that a benchmark measured on it."""
    return replace(device, measured=measured_roofs(ceilings, device.measured))
