"""The sections of docs/performance.md on single products through the whole service, on a CPU and on a GPU."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.where import where
from tools.markdown import table


def targets(record: dict[str, Any]) -> str:
    """The targets of the service on two cores, and whether this run reached them."""
    rows = {row["n"]: row for row in record["sizes"]}
    reached = (
        ("overhead at N = 16, ms", rows[16]["overhead_p50_ms"], 4.0, False),
        ("overhead at N = 256, ms", rows[256]["overhead_p50_ms"], 8.0, False),
        ("reply / numpy at N = 2048", rows[2048]["ratio_p50"], 1.5, False),
        ("small products a second", record["throughput"]["products_per_s"], 150.0, True),
        ("upload as an operand, GB/s", record["upload"]["inline"]["gb_per_s"], 1.0, True),
        ("upload under its sha256, GB/s", record["upload"]["stored"]["gb_per_s"], 1.0, True),
    )
    return table(
        ("target", "bound", "this run", ""),
        [
            (
                name,
                f"{'≥' if more_is_better else '≤'} {bound:g}",
                f"{value:.2f}",
                "reached" if (value >= bound) is more_is_better else "missed",
            )
            for name, value, bound, more_is_better in reached
        ],
    )


def service(record: dict[str, Any]) -> str:
    """Reply time of a synchronous product, compared with numpy's own."""
    rows = [
        (
            f"{row['n']}",
            f"{row['numpy']['p50_ms']:.2f}",
            f"{row['service']['p50_ms']:.2f}",
            f"{row['service']['p99_ms']:.2f}",
            f"{row['overhead_p50_ms']:.2f}",
            f"{row['ratio_p50']:.2f}",
        )
        for row in record["sizes"]
    ]
    columns = ("N", "numpy p50, ms", "reply p50, ms", "reply p99, ms", "overhead p50, ms", "reply / numpy")
    many, upload = record["throughput"], record["upload"]
    return "\n\n".join(
        (
            "## The service, beside numpy in the same run",
            "A synchronous float32 product over HTTP with one CPU worker: two .npy files in, verified, one .npy out.",
            where(record),
            table(columns, rows).rstrip(),
            targets(record).rstrip(),
            f"{many['products_per_s']:.0f} products of {many['n']}×{many['n']} a second from {many['clients']} clients "
            f"(p50 {many['latency']['p50_ms']:.1f} ms, p99 {many['latency']['p99_ms']:.1f} ms).",
            f"A {upload['bytes'] / 2**20:.0f} MiB matrix uploads at {upload['inline']['gb_per_s']:.2f} GB/s as an "
            f"operand of a product, and at {upload['stored']['gb_per_s']:.2f} GB/s under its sha256.",
        )
    )


def end_to_end(record: dict[str, Any]) -> str:
    """Products on a GPU through the whole service."""
    rows = []
    for result in record["results"]:
        job = result["job"]
        (m, k), n = job["request"]["a"]["shape"], job["request"]["b"]["shape"][1]
        timing = tuple(f"{job['timing'][f'{part}_ms']:.3f}" for part in ("queue", "h2d", "kernel", "d2h", "total"))
        check = job["verification"]
        rows.append(
            (
                f"`{job['kernel']}`",
                job["request"]["a"]["dtype"],
                f"{m}×{k} · {k}×{n}",
                *timing,
                f"{job['gflops']:.0f}",
                f"{result['error_vs_float64']:.1e}",
                f"{check['residual']:.1e} of {check['threshold']:.1e}",
            )
        )
    columns = ("kernel", "type", "shape", "queue, ms", "h2d, ms", "kernel, ms", "d2h, ms", "total, ms", "GFLOPS")
    device = next(worker["device"] for worker in record["devices"] if worker["device"]["device_class"] == "gpu")
    return "\n\n".join(
        (
            f"## The whole way on an {device['name']}",
            "Matrix files in by curl, a Celery GPU worker, the product back; single products on an idle GPU, "
            "so that a library's first use of a kernel pays for its loading. "
            "Error: relative Frobenius norm against float64. Residual: Freivalds' check, with its threshold.",
            where(record),
            table((*columns, "error", "residual"), rows),
        )
    )
