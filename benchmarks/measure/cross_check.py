"""Compares this project's timing with NVIDIA's NVBench (the cuda-bench wheel): the same launches, both with a cold L2.

    python -m benchmarks.measure.cross_check --out benchmarks/results/h200/cross_check.json

Three kernels, from a long to a short launch. The two alternate, so that both run at the same clocks; the ratio is one
of medians. Also: the same cuBLAS product of bfloat16 zeros and of normal data, which must differ on a power-limited
GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cupy

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTypeName, Problem
from worker.cpu.environment import dated_environment
from worker.cuda.bench.bench import CudaPrepared
from worker.cuda.bench.operands import random_set
from worker.cuda.runner import CudaRunner
from worker.device.bench import Bench

CASES: tuple[tuple[str, DTypeName, int], ...] = (
    ("naive", "float32", 1024),
    ("pipelined", "float32", 2048),
    ("cublas", "float32", 4096),
)
ROUNDS, SAMPLES = 3, 60
ZEROS_N = 8192


def case_of(runner: CudaRunner, kernel: str, dtype: DTypeName, n: int) -> Case:
    problem = Problem(n, n, n, dtype)
    config = BY_NAME[kernel].resolve_config({}, problem, runner.device.traits)
    return Case(kernel, dict(config), problem)


def ours_us(bench: Bench, case: Case, samples: int) -> list[float]:
    prepared = bench.prepare(case)
    for _ in range(3):
        prepared.sample(1, "cold")
    return [prepared.sample(1, "cold").time_us for _ in range(samples)]


def nvbench_us(actions: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """NVBench's own samples of one launch, by name. It runs once, because a second run in a process would repeat the
    first."""
    from cuda import bench as nvbench
    from cuda.bench.results import BenchmarkResult

    for name, action in actions.items():
        nvbench.register(_measured(action)).set_name(name)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "result.json"
        samples = ("--stopping-criterion", "sample-count", "--target-samples", str(ROUNDS * SAMPLES))
        nvbench.run_all_benchmarks(["cross_check", "--jsonbin", str(path), *samples])
        results = BenchmarkResult.from_json(str(path))
        return {name: [1e6 * float(seconds) for seconds in results[name][0].samples] for name in actions}


def action(runner: CudaRunner, bench: Bench, case: Case) -> Callable[[], None]:
    """One launch, on operands of its own of the same kind."""
    prepared = bench.prepare(case)
    assert isinstance(prepared, CudaPrepared)
    operands = random_set(runner.compiler, case.problem, DataSpec())
    return lambda: prepared.put(operands)


def _measured(action: Callable[[], None]) -> Callable[[Any], None]:
    def on_its_stream(launch: Any) -> None:
        with cupy.cuda.ExternalStream(launch.get_stream().addressof()):
            action()

    return lambda state: state.exec(on_its_stream, batched=False)


def compare(runner: CudaRunner) -> list[dict[str, Any]]:
    """Ours, then NVBench, then ours again: drift shows as a difference between the two halves of ours."""
    cases = [case_of(runner, *case) for case in CASES]
    with ExitStack() as stack:
        benches = [stack.enter_context(runner.bench(case.problem, DataSpec())) for case in cases]
        first = [ours_us(bench, case, SAMPLES) for bench, case in zip(benches, cases, strict=True)]
        actions = {case.kernel: action(runner, bench, case) for bench, case in zip(benches, cases, strict=True)}
        theirs = nvbench_us(actions)
        second = [ours_us(bench, case, SAMPLES) for bench, case in zip(benches, cases, strict=True)]
    return [
        compared(case, before, theirs[case.kernel], after)
        for case, before, after in zip(cases, first, second, strict=True)
    ]


def compared(case: Case, before: list[float], theirs: list[float], after: list[float]) -> dict[str, Any]:
    ours, other = statistics.median(before + after), statistics.median(theirs)
    return {
        "kernel": case.kernel,
        "dtype": case.problem.dtype,
        "n": case.problem.n,
        "ours_us": ours,
        "ours_before_us": statistics.median(before),
        "ours_after_us": statistics.median(after),
        "nvbench_us": other,
        "ratio": ours / other,
        "samples": [len(before) + len(after), len(theirs)],
    }


def zeros_and_normal(runner: CudaRunner) -> dict[str, Any]:
    """Alternately, so that both run at the same clocks and temperature."""
    case = case_of(runner, "cublas", "bfloat16", ZEROS_N)
    times: dict[str, list[float]] = {"zeros": [], "normal": []}
    for _ in range(ROUNDS):
        for distribution in ("normal", "zeros"):
            with runner.bench(case.problem, DataSpec(distribution=distribution)) as bench:
                times[distribution] += ours_us(bench, case, SAMPLES)
    tflops = {name: case.problem.flops / statistics.median(samples) / 1e6 for name, samples in times.items()}
    return {"kernel": case.kernel, "dtype": "bfloat16", "n": ZEROS_N, "tflops": tflops}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    runner = CudaRunner(Settings(device="gpu:0"))
    document = {
        "environment": dated_environment(),
        "device": runner.device.model_dump(mode="json"),
        "nvbench": compare(runner),
        "zeros_and_normal": zeros_and_normal(runner),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document["nvbench"], indent=1), json.dumps(document["zeros_and_normal"]))


if __name__ == "__main__":
    main()
