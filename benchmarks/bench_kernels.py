"""Measures the fast kernels beside cuBLAS through the service, in one run, for the targets in docs/performance.md.

    python -m benchmarks.bench_kernels --out benchmarks/results/h200_vs_cublas.json

Without --url a stack of its own is started, with a worker on --device. The file has the results of one benchmark for
each kernel, by its name.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.kernel_targets import TARGETS
from benchmarks.presets import run, service


def results(client: httpx.Client, job_id: str) -> dict[str, Any]:
    reply = client.get(f"/v1/benchmarks/{job_id}/results", headers={"accept": "application/json"})
    return dict(reply.raise_for_status().json())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--budget-s", type=float, default=540.0, help="what is not done by then is cancelled")
    parser.add_argument("--kernels", nargs="*", help="only these of the kernels that have targets")
    arguments = parser.parse_args()
    ends_at = time.monotonic() + arguments.budget_s
    found: dict[str, dict[str, Any]] = {}
    with (
        service(arguments.url, arguments.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        for target in TARGETS:
            if arguments.kernels and target.kernel not in arguments.kernels:
                continue
            job = run(client, target.kernel, target.spec, ends_at)
            print(f"{target.kernel}: {job['state']}", flush=True)
            found[target.kernel] = results(client, job["id"])
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
