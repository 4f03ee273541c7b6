"""Measures how much longer the first product of a new shape takes than the second, through the service.

    python -m benchmarks.measure.first_shape --out benchmarks/results/h200_first_shape.json

Shapes are drawn by a seed that the record keeps. Each is multiplied four times in a row by `auto`, with random
operands. A product's time is that of its job, from the claim to the end. The first is compared with the median of the
other three. With --settle-s the worker is idle for that time before the first product; a fresh worker then compiles its
kernels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import httpx

from benchmarks.measure.auto import ended, random_operand
from benchmarks.measure.auto_sample import Shape, draw, parser_of
from benchmarks.measure.presets import service
from benchmarks.recorded import write_rows
from kernels.model.numerics import DTypeName

SHAPES, MAX_SIZE, AGAIN = 100, 4096, 3
MUST_MEDIAN_MS, MUST_WORST_MS = 5.0, 50.0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, shapes=SHAPES, max_size=MAX_SIZE)
    parser.add_argument("--settle-s", type=float, default=0.0, help="for which the worker is first left idle")
    return parser.parse_args(arguments)


def compared(client: httpx.Client, shapes: Sequence[Shape], dtype: DTypeName) -> Iterator[Mapping[str, Any]]:
    """One row for each shape."""
    for m, n, k in shapes:
        first, *later = [product(client, (m, n, k), dtype) for _ in range(1 + AGAIN)]
        second_ms = median(job_ms(job) for job in later)
        yield {
            "m": m,
            "n": n,
            "k": k,
            "first_kernel": first["kernel"],
            "kernel": later[-1]["kernel"],
            "first_ms": round(job_ms(first), 3),
            "second_ms": round(second_ms, 3),
            "kernel_ms": round(median(job["timing"]["kernel_ms"] for job in later), 4),
        }


def product(client: httpx.Client, shape: Shape, dtype: DTypeName) -> dict[str, Any]:
    """The record of a job that multiplied with `auto`."""
    m, n, k = shape
    operands = {"a": random_operand((m, k), dtype, 1), "b": random_operand((k, n), dtype, 2)}
    reply = client.post("/v1/matmul", json=operands | {"dtype": dtype}, headers={"prefer": "respond-async"})
    location = reply.raise_for_status().headers["location"]
    job = ended(client, location)
    client.delete(location)
    return job


def job_ms(job: Mapping[str, Any]) -> float:
    """The job's time without its time in the queue."""
    timing = job["timing"]
    return float(timing["total_ms"] - timing["queue_ms"])


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    over = sorted(row["first_ms"] - row["second_ms"] for row in rows)
    shapes = f"{len(rows)} shapes: the first product took {median(over):.2f} ms more than the second in the median"
    return f"{shapes}, {over[-1]:.2f} ms at most (must: {MUST_MEDIAN_MS:g} and {MUST_WORST_MS:g})."


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    with (
        service(asked.url, asked.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        time.sleep(asked.settle_s)
        product(client, (64, 64, 64), asked.dtype)  # what the service does only once does not belong to a shape
        rows = list(compared(client, draw(asked.shapes, asked.seed, asked.most), asked.dtype))
        device = client.get("/v1/devices").raise_for_status().json()
    about = {"seed": asked.seed, "dtype": asked.dtype, "most": asked.most, "settle_s": asked.settle_s}
    write_rows(asked.out, about | {"device": device}, rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
