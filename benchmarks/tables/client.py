"""The Python client's section of docs/performance.md."""

from __future__ import annotations

from typing import Any

from tools.markdown import table

BOUND_MS, BOUND_FRACTION = 0.3, 0.05  # at the smallest size, and at the largest


def client(record: dict[str, Any], where: str) -> str:
    rows = [
        (
            f"{row['n']}",
            f"{row['bare_p50_ms']:.2f}",
            f"{row['client_p50_ms']:.2f}",
            f"{row['longer_p50_ms']:.2f}",
            f"{row['longer_fraction']:.1%}",
            f"{row['more_cpu_p50_ms']:.2f}",
        )
        for row in record["sizes"]
    ]
    small, large = record["sizes"][0], record["sizes"][-1]
    columns = ("N", "bare socket p50, ms", "client p50, ms", "longer by, ms", "of the request", "more CPU time, ms")
    reached = small["longer_p50_ms"] <= BOUND_MS and large["longer_fraction"] <= BOUND_FRACTION
    return "\n\n".join(
        (
            "## The Python client, beside a bare socket",
            "The same float32 product, by turns: `Client.matmul` from arrays to an array, and the same bytes over a "
            "socket that is kept open, put together before. Medians; *longer by* is that of the differences in pairs.",
            where,
            table(columns, rows).rstrip(),
            f"Bounds: {BOUND_MS:g} ms at N = {small['n']}, {BOUND_FRACTION:.0%} at N = {large['n']}: "
            f"{'reached' if reached else 'missed'} in this run.",
        )
    )
