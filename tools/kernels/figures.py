"""Recorded figures of a kernel: those of the reports, and our own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.published import PUBLISHED
from kernels.published_records import Publication, PublishedDevice, PublishedRecord
from kernels.selection.defaults import main_dtype
from tools.markdown import table

LADDER_DEVICE = "NVIDIA H200"  # whose figures stand beside the models of kernels
SIZES = (256, 512, 1024, 1025, 2047, 2048, 4096, 4097, 8192)  # of our own figures


def published(kernel: str) -> str:
    """The best figure of each report that has the kernel."""
    found = [(publication, best) for publication in PUBLISHED.values() if (best := _best(publication, kernel))]
    if not found:
        return ""
    rows = (
        (
            publication.report or publication.title,
            best.label,
            publication.device.name or "not named" if best.device_class == "gpu" else "a CPU",
            f"{best.n}{' (inferred)' if best.size_inferred else ''}" if best.n else "not said",
            f"{'about ' if best.approximate else ''}{best.gflops:,.0f}",
        )
        for publication, best in found
    )
    head = ("Report", "Its name for it", "Measured on", "N", "GFLOPS")
    return "The best figure of each report that has it:\n\n" + table(head, rows)


def _best(publication: Publication, kernel: str) -> PublishedRecord | None:
    if publication.report is None:
        return None
    records = [record for record in publication.records if record.kernel == kernel and record.gflops is not None]
    return max(records, key=lambda record: record.gflops or 0, default=None)


@cache
def _ours() -> tuple[tuple[PublishedDevice, PublishedRecord], ...]:
    """Square products of our own runs at those sizes, each at its default config; the newest run first."""
    runs = sorted((one for one in PUBLISHED.values() if one.report is None), key=lambda one: one.citation.date or "")
    return tuple(
        (run.device, record)
        for run in reversed(runs)
        for record in run.records
        if record.gflops and record.m == record.n == record.k and record.n in SIZES and _is_default(run.device, record)
    )


def _is_default(device: PublishedDevice, record: PublishedRecord) -> bool:
    kernel = BY_NAME.get(record.kernel or "")
    if kernel is None or record.dtype is None or not record.n:
        return False
    problem = Problem(record.n, record.n, record.n, record.dtype)
    return dict(kernel.resolve_config(NO_CONFIG, problem, device.traits)) == dict(record.config)


def is_measured() -> bool:
    return bool(_ours())


def measured(kernel: str) -> str:
    """Our own figures at the defaults, size by size, against cuBLAS in the same run; of several runs the newest."""
    found: dict[tuple[str, DTypeName, int], tuple[PublishedDevice, PublishedRecord]] = {}
    for device, record in _ours():
        if record.kernel == kernel and record.dtype and record.n:
            found.setdefault((device.name or "", record.dtype, record.n), (device, record))
    by_device: dict[str, list[PublishedRecord]] = {}
    for (device_name, *_), (_, record) in sorted(found.items()):
        by_device.setdefault(device_name, []).append(record)
    return "\n".join(_measured_on(name, records) for name, records in sorted(by_device.items(), reverse=True))


def _measured_on(device: str, records: Sequence[PublishedRecord]) -> str:
    rows = (
        (
            record.dtype or "",
            str(record.n),
            _figure(record.kernel_ms, ".4g"),
            _figure(record.gflops, ",.0f"),
            _figure(record.fraction_of_cublas, ".3f"),
            _figure(record.error_vs_float64, ".1e"),
            _figure(record.registers, "d"),
            _figure(record.occupancy, ".3g"),
        )
        for record in records
    )
    head = ("Type", "N", "Kernel, ms", "GFLOPS", "Of cuBLAS", "Error", "Registers", "Occupancy")
    return f"Measured on an {device}, at the defaults of each size:\n\n{table(head, rows)}"


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def measured_at(kernel: str, size: int) -> str:
    """GFLOPS and fraction of cuBLAS of a CUDA kernel's square product on an H200; empty where there is none."""
    entry = BY_NAME[kernel]
    assert isinstance(entry, CudaKernel)
    for device, record in _ours():
        if device.name == LADDER_DEVICE and (record.kernel, record.n, record.dtype) == (
            kernel,
            size,
            main_dtype(entry),
        ):
            return ", ".join(filter(None, (_figure(record.gflops, ",.0f"), _figure(record.fraction_of_cublas, ".2f"))))
    return ""
