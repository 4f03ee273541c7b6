"""Measures what `auto` takes for random products beside every fast kernel, through the service.

    python -m benchmarks.bench_auto --out benchmarks/results/h200_auto.json

Shapes are drawn afresh in each run, by a seed that the file keeps.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from secrets import randbelow
from typing import Any

import httpx

from benchmarks.auto_sample import draw
from benchmarks.bench_kernels import results
from benchmarks.presets import run, service
from kernels.catalog import CATALOG
from kernels.kernel import CudaKernel
from kernels.numerics import DTYPE_NAMES, DTypeName

SHAPES = 200
SLOW = ("naive", "naive_uncoalesced", "unrolled", "coarsened", "shared_tiled", "shared_tiled_privatized")
TIMING = {"rounds": 1, "warmup_ms": 20.0, "min_samples": 5, "max_samples": 20, "min_time_s": 0.02}


def rivals(dtype: DTypeName) -> list[str]:
    """Kernels of ours that multiply the type to its own accuracy, without the first rungs of the ladder."""
    found = [kernel.name for kernel in CATALOG if isinstance(kernel, CudaKernel) and kernel.takes(dtype)]
    return [name for name in found if name not in SLOW]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--dtype", default="float32", choices=DTYPE_NAMES)
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--budget-s", type=float, default=560.0, help="what is not done by then is cancelled")
    arguments = parser.parse_args()
    ends_at = time.monotonic() + arguments.budget_s
    shapes = [{"m": m, "n": n, "k": k} for m, n, k in draw(arguments.shapes, arguments.seed)]
    body: dict[str, Any] = {"shapes": shapes, "dtypes": [arguments.dtype], "timing": TIMING}
    found: dict[str, Any] = {"seed": arguments.seed, "dtype": arguments.dtype}
    with (
        service(arguments.url, arguments.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        for name, kernels in (("auto", "best"), ("others", rivals(arguments.dtype))):
            job = run(client, name, body | {"kernels": kernels, "title": f"random products: {name}"}, ends_at)
            print(f"{name}: {job['state']}", flush=True)
            found[name] = results(client, job["id"])
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
