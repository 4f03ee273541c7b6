"""The parts of docs/performance.md on benchmarks recorded through the service, and on the harness itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.result_models import CaseResult, Results
from benchmarks.recorded import files, is_results, name_of, read
from benchmarks.tables.compare import AGAIN, comparisons
from tools.markdown import table


def recorded(folder: Path) -> list[tuple[Path, Results]]:
    """Results of benchmark jobs in a folder, by name; records of other programs are skipped."""
    documents = ((path, read(path)) for path in files(folder))
    return [(path, Results.model_validate(document)) for path, document in documents if is_results(document)]


def benchmarks(folder: Path) -> Iterator[str]:
    """Every recorded benchmark, then the ladder, the roofs, and comparisons between runs."""
    records = recorded(folder)
    if not records:
        return
    yield f"## Benchmarks on an {records[0][1].device['name']}"
    yield (
        f"Recorded by `make bench-presets`, a POST to the service each; its cases are in "
        f"`benchmarks/results/{folder.name}/`, a row each. [methodology.md](methodology.md) says how they are measured."
    )
    columns = ("benchmark", "finished", "seconds", "cases", "record")
    yield table(columns, [_row(path, results) for path, results in records]).rstrip()
    by_name = {name_of(path): results for path, results in records}
    if "ladder" in by_name:
        yield from _ladder(by_name["ladder"])
    if "ceilings" in by_name:
        yield from _ceilings(by_name["ceilings"])
    if any(name.endswith(AGAIN) for name in by_name):
        yield from comparisons(list(by_name.items()))


def _row(path: Path, results: Results) -> tuple[str, ...]:
    job, statuses = results.job, Counter(case.status for case in results.records)
    ended = job.finished_at
    seconds = f"{(ended - job.started_at).total_seconds():.0f}" if ended and job.started_at else ""
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items()) or f"{len(results.ceilings)} roofs"
    link = f"[rows](../benchmarks/results/{path.parent.name}/{path.name})"
    when = f"{ended:%Y-%m-%d %H:%M}" if ended else ""
    return f"`{name_of(path)}`", when, seconds, counts if results.complete else f"{counts}, not whole", link


def _ladder(results: Results) -> Iterator[str]:
    yield f"### {results.job.title}"
    yield (
        "Kernel time with operands on the device; with copies: in and out from page-locked memory, not overlapped. "
        "Error: relative Frobenius norm against float64."
    )
    columns = ("kernel", "config", "type", "N", "GFLOPS", "of the baseline", "GFLOPS with copies", "error")
    timed = [case for case in results.records if case.gflops is not None]
    yield table(columns, [_rung(case) for case in timed]).rstrip()


def _rung(case: CaseResult) -> tuple[str, ...]:
    config = ", ".join(f"{name} {value}" for name, value in case.config.items())
    ratio, whole_ms = case.fraction_of_baseline, None
    if case.copies is not None and case.kernel_ms is not None:
        whole_ms = case.copies.h2d_ms + case.kernel_ms + case.copies.d2h_ms
    return (
        f"`{case.kernel}`",
        config,
        case.dtype,
        str(case.n),
        f"{case.gflops:.0f}",
        f"{ratio.value:.3f}" if ratio is not None and case.baseline != case.case else "",
        f"{case.flops / whole_ms / 1e6:.0f}" if whole_ms else "",
        f"{case.error_vs_float64:.1e}" if case.error_vs_float64 is not None else "",
    )


def _ceilings(results: Results) -> Iterator[str]:
    yield f"### {results.job.title}"
    rows = [
        (
            f"`{roof.name}`",
            f"{roof.value:.0f}" if roof.value is not None else "",
            f"{roof.theoretical:.0f}" if roof.theoretical is not None else "",
            roof.unit,
            f"{roof.sm_clock_mhz:.0f}" if roof.sm_clock_mhz is not None else "",
            roof.note or roof.reason or "",
        )
        for roof in results.ceilings
    ]
    yield table(("roof", "measured", "by arithmetic", "unit", "SM clock, MHz", "how"), rows).rstrip()


def cross_check(record: dict[str, Any]) -> Iterator[str]:
    """This harness compared with NVBench, and normal data compared with zeros."""
    yield f"## The harness beside NVBench on an {record['device']['name']}"
    yield (
        f"The same launches, each sample with a cold L2, timed by this harness before and after NVBench (`cuda-bench`) "
        f"had its turn; medians. Recorded {record['environment']['recorded_at']}, driver "
        f"{record['device']['versions']['driver']}."
    )
    rows = [
        (
            f"`{sample['kernel']}`",
            str(sample["n"]),
            f"{sample['ours_before_us']:.1f}",
            f"{sample['nvbench_us']:.1f}",
            f"{sample['ours_after_us']:.1f}",
            f"{sample['ratio']:.4f}",
        )
        for sample in record["nvbench"]
    ]
    yield table(("kernel", "N", "ours before, µs", "NVBench, µs", "ours after, µs", "ours / NVBench"), rows).rstrip()
    data = record["zeros_and_normal"]
    zeros, normal = data["tflops"]["zeros"], data["tflops"]["normal"]
    yield (
        f"`{data['kernel']}` on {data['dtype']} at {data['n']}: {normal:.0f} TFLOPS on normal data, {zeros:.0f} on "
        f"zeros, {zeros / normal - 1:.0%} more: the power cap does not bind where no bit flips."
    )
