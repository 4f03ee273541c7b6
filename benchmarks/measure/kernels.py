"""Measures the fast kernels and cuBLAS through the service, in one run, for docs/performance.md and its plot.

    python -m benchmarks.measure.kernels --out benchmarks/results/h200_vs_cublas.jsonl.gz

Without --url it starts a stack of its own, with a worker on --device. Targets come first, then the sizes that only the
plot shows. The file has the results of each benchmark by its name, and is rewritten every few seconds: an interrupted
run leaves what it measured, and --resume measures the rest. With --kernels the file's other benchmarks remain
unchanged.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from benchmarks.kernel_targets import CURVES, TARGETS
from benchmarks.measure.presets import run, service
from benchmarks.recorded import read, write


def results(client: httpx.Client, job_id: str) -> dict[str, Any]:
    reply = client.get(f"/v1/benchmarks/{job_id}/results", headers={"accept": "application/json"})
    return dict(reply.raise_for_status().json())


class Kept:
    """The file, which is complete at any moment."""

    def __init__(self, path: Path, about: Mapping[str, Any] | None = None, *, brief: bool = False) -> None:
        self._path, self._brief = path, brief
        self._found: dict[str, Any] = dict(about or {})

    def keep(self, name: str, results: Mapping[str, Any]) -> None:
        """Also keeps a running benchmark, once it has a case."""
        if not results["records"]:
            return
        self._found[name] = results
        write(self._path, self._found, brief=self._brief)


def look(client: httpx.Client, kept: Kept, name: str, job_id: str) -> None:
    kept.keep(name, results(client, job_id))


def specs(
    kernels: Sequence[str] | None, measured: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[str, dict[str, Any]]]:
    """By name, in the order in which they are measured; for all kernels or for these; without benchmarks that were
    measured completely."""
    for target in (*TARGETS, *CURVES):
        if not kernels or target.kernel in kernels:
            for name, spec in target.specs.items():
                if not measured.get(name, {}).get("complete"):
                    yield name, spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--device", default="gpu:0")
    parser.add_argument("--budget-s", type=float, default=420.0, help="what is not done by then is cancelled")
    parser.add_argument("--kernels", nargs="*", help="only these of the kernels that have targets")
    parser.add_argument("--resume", action="store_true", help="without what the file has in full")
    arguments = parser.parse_args()
    ends_at = time.monotonic() + arguments.budget_s
    keeps = (arguments.kernels or arguments.resume) and arguments.out.exists()
    before = read(arguments.out) if keeps else {}
    kept = Kept(arguments.out, before)
    with (
        service(arguments.url, arguments.device) as url,
        httpx.Client(base_url=url, timeout=120, trust_env=False) as client,
    ):
        for name, spec in specs(arguments.kernels, before if arguments.resume else {}):
            if time.monotonic() > ends_at:
                print(f"{name}: no time left", flush=True)
                continue
            job = run(client, name, spec, ends_at, partial(look, client, kept, name))
            print(f"{name}: {job['state']}, {ends_at - time.monotonic():.0f} s left", flush=True)


if __name__ == "__main__":
    main()
