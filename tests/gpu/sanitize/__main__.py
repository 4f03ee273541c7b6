"""Runs every CUDA kernel under compute-sanitizer's tools: `make sanitize`.

    make sanitize ARGS="--processes 6 --for-s 560 --seconds 240 --out benchmarks/results/h200_sanitize.json"

Kernels of Hopper's own instructions have a process each, for a tool may not get through one: its copies, barriers and
products are done by units beside the threads that the tool watches. Such a kernel is told by name, with the tool that
did not end; what a tool finds, in any kernel, is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from benchmarks.recorded import write_rows
from kernels.model.kernel import CudaKernel, DeviceTraits
from tests.gpu.sanitize.launches import on_gpu
from tests.gpu.sanitize.sweep import COMPILE, LAUNCHES
from worker.cpu.environment import dated_environment

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# It does not see what bulk copies write, and would take a product that is read back for uninitialised memory.
OPTIONS = {"initcheck": ("--check-api-memory-access", "no")}
# synccheck wants all threads of a block at one barrier instruction. Warps of tensor_fp64 meet at one barrier from two
# (`meet_block` in dmma_pipeline.cuh), as PTX allows; behind fp64_emulated too.
LEFT_OUT = {"synccheck": ("tensor_fp64", "fp64_emulated")}
PACKAGES = ("cupy-cuda13x", "numpy")
DIRECTORY = ".matmul/kernels"
FOUND = 9  # exit status of the tool where it found something
MAX_SHOWN = 4000  # last letters of what it said
Verdict = Literal["clean", "found", "broke off", "did not end", "not begun"]


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels that go through a tool in one process. `followed`: that a tool gets through them is known."""

    kernels: tuple[str, ...]
    followed: bool

    def __str__(self) -> str:
        return self.kernels[0] if len(self.kernels) == 1 else f"{len(self.kernels)} kernels"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool came to, and what it said."""

    tool: str
    group: Group
    verdict: Verdict
    said: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        found = self.verdict in ("found", "broke off", "not begun")
        return found or (self.verdict == "did not end" and self.group.followed)

    def row(self) -> dict[str, Any]:
        launches = re.search(LAUNCHES.format(r"(\d+)"), self.said)
        return {
            "tool": self.tool,
            "kernels": self.group.kernels,
            "verdict": self.verdict,
            "launches": int(launches[1]) if launches else None,
            "seconds": round(self.seconds, 1),
        }


def groups(kernels: Sequence[CudaKernel]) -> Iterator[Group]:
    """All that newer devices run too together, the others one by one."""
    common = tuple(kernel.name for kernel in kernels if not kernel.architecture_specific)
    if common:
        yield Group(common, followed=True)
    yield from (Group((kernel.name,), followed=False) for kernel in kernels if kernel.architecture_specific)


def verdict_of(status: int | None) -> Verdict:
    """By the exit status; None where there was no time left."""
    if status is None:
        return "did not end"
    return {0: "clean", FOUND: "found"}.get(status, "broke off")  # type: ignore[return-value]


def swept(tool: str, group: Group, seconds: float) -> Outcome:
    began = time.monotonic()
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), *OPTIONS.get(tool, ())]
    command += [sys.executable, "-m", "tests.gpu.sanitize.sweep", DIRECTORY, *group.kernels]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, process_group=0) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
            verdict = verdict_of(process.returncode)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the sweep is a child of the tool
            said, verdict = process.communicate()[0], verdict_of(None)
    return Outcome(tool, group, verdict, said, time.monotonic() - began)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sanitize", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--tools", nargs="*", default=TOOLS, choices=TOOLS)
    parser.add_argument("--kernels", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=120.0, help="for one tool and one group of kernels")
    parser.add_argument("--for-s", type=float, default=inf, help="for all of it; what is left then is not begun")
    parser.add_argument("--processes", type=int, default=1, help="groups of kernels at a time")
    parser.add_argument("--out", type=Path, help="record of the run")
    asked = parser.parse_args()
    ends_at = time.monotonic() + asked.for_s
    wanted = [one for one in on_gpu(traits()) if not asked.kernels or one.name in asked.kernels]
    compile_first([one.name for one in wanted])
    each = [
        (tool, group)
        for tool in asked.tools
        for group in groups([one for one in wanted if one.name not in LEFT_OUT.get(tool, ())])
    ]
    each.sort(key=lambda one: not one[1].followed)  # those that must end come first
    with ThreadPoolExecutor(asked.processes) as pool:
        outcomes = list(pool.map(lambda one: told(one[0], one[1], asked.seconds, ends_at), each))
    failed = sum(one.is_failure for one in outcomes)
    print(f"{len(each) - failed} of {len(each)} without a failure", flush=True)
    if asked.out:
        about = {"environment": dated_environment(*PACKAGES), "device": traits().name}
        write_rows(asked.out, about, [one.row() for one in outcomes])
    return 1 if failed else 0


def compile_first(names: Sequence[str]) -> None:
    """By all cores, so that no tool spends its time on that. What does not compile is told by each tool."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "tests.gpu.sanitize.sweep", DIRECTORY, COMPILE, *names], check=False)
    print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)


def told(tool: str, group: Group, seconds: float, ends_at: float) -> Outcome:
    left = min(seconds, ends_at - time.monotonic())
    outcome = swept(tool, group, left) if left > 0 else Outcome(tool, group, "not begun")
    shown = outcome.said[-MAX_SHOWN:] if outcome.verdict != "clean" else ""
    print(f"{tool}, {group}: {outcome.verdict}, {outcome.seconds:.0f} s\n{shown}", end="", flush=True)
    return outcome


def traits() -> DeviceTraits:
    from worker.cuda.gpu.info import cuda_info

    return cuda_info(0).traits


if __name__ == "__main__":
    sys.exit(main())
