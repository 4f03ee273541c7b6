"""Spoils products in every way that is thought of, and counts what the check lets pass; and what it refuses wrongly.

    make prove ARGS="--out benchmarks/results/prove_cpu.json"
    make prove ARGS="--device gpu:0 --processes 8 --out benchmarks/results/prove_h200.json"
    make prove ARGS="--seed 7 --first 4211 --faults 10 --clean 0 --processes 1"    # from one product on, again

A fault counts where an element is further off than its accuracy class allows (docs/accuracy.md); it must be caught.
Exits with 1 where fewer than 99.99 % of a kind are, where a clean product is refused, or where a kernel leaves its
class.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from secrets import randbelow
from typing import Any

from benchmarks.recorded import write
from tests.campaign.run import Share, backend_of, run
from tests.campaign.tally import Result, report, total
from worker.cpu.environment import dated_environment

PACKAGES = ("cupy-cuda13x", "numpy")
COMPILED_FIRST = 4000  # products whose programs are compiled by all cores before any is made


def results(shares: Sequence[Share]) -> Result:
    """Of all shares, each in a process of its own where there are several."""
    if len(shares) == 1:
        return run(shares[0])
    with ProcessPoolExecutor(len(shares), multiprocessing.get_context("spawn")) as pool:
        return total(pool.map(run, shares))


def compile_first(share: Share) -> str:
    """The device's name. On a GPU every program is compiled, for the processes to come."""
    backend = backend_of(share)
    if share.device != "cpu":
        from tests.campaign.gpu_backend import GpuBackend

        assert isinstance(backend, GpuBackend)
        backend.compile_for(share.seed, range(share.first, share.first + COMPILED_FIRST))
    return backend.device.name


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--faults", type=int, default=10_000, help="of each kind")
    parser.add_argument("--clean", type=int, default=200_000, help="products checked as they are")
    parser.add_argument("--first", type=int, default=0, help="number of the first product")
    parser.add_argument("--seed", type=int, default=randbelow(2**31))
    parser.add_argument("--seconds", type=float, default=900.0, help="nothing is begun after so long")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kernels", nargs="*", default=(), help="of a GPU, only these")
    parser.add_argument(
        "--sketches", action="store_true", help="check small products as large ones are: by random vectors, not whole"
    )
    parser.add_argument("--out", type=Path, help="record of the run")
    asked = parser.parse_args(arguments)
    count = asked.processes
    shares = [
        Share(
            device=asked.device,
            seed=asked.seed,
            first=asked.first + index,
            processes=count,
            faults=-(-asked.faults // count),
            clean=-(-asked.clean // count),
            seconds=asked.seconds,
            kernels=tuple(asked.kernels),
            sketches=asked.sketches,
        )
        for index in range(count)
    ]
    device = compile_first(shares[0])
    print(f"seed {asked.seed} on {device}", flush=True)
    began = time.monotonic()
    result = results(shares)
    print("\n".join(report(result)))
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    if asked.out:
        write(asked.out, record(asked, device, result))
    return 0 if result.passed else 1


def record(asked: argparse.Namespace, device: str, result: Result) -> dict[str, Any]:
    return {
        "environment": dated_environment(*PACKAGES),
        "device": device,
        "seed": asked.seed,
        "first": asked.first,
        "sketches": asked.sketches,
        **result.as_record(),
    }


if __name__ == "__main__":
    sys.exit(main())
