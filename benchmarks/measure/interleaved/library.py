"""Measures cuBLAS at its best, the baseline to beat: tuned, and on operands padded with zeros. For docs/performance.md.

    python -m benchmarks.measure.interleaved.library --out benchmarks/results/h200_library.json

Four times for each product: by the default heuristic, by the fastest algorithm that cublasLt's heuristic proposes, and
both again with m, n and k padded to multiples of 64, copies not counted. Rows have the service's pitch. Normal data,
cold cache, launches queued before they are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.kernel_targets import TargetShape
from benchmarks.measure.interleaved.timing import Launch, median_ms, record, sampler_of
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.model.numerics import DTypeName, Problem

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas_tuned import Way
    from worker.cuda.memory import Matrices
    from worker.cuda.runner import CudaRunner

SIZES = (1024, 2047, 2048, 2049, 3000, 4096, 4097, 5120, 8192, 8193)
LIBRARIES: tuple[tuple[str, DTypeName], ...] = (
    ("cublas", "bfloat16"),
    ("cublas", "float16"),
    ("cublas_tf32", "float32"),
    ("cublas", "float32"),
    ("cublas", "float64"),
)
UNPADDED = 1
SAMPLES, TRIALS = 15, 4  # of each time; of each algorithm that is tried


class Library:
    """cuBLAS on the first GPU."""

    def __init__(self) -> None:
        from worker.cuda.library.cublas import Cublas
        from worker.cuda.library.cublas_tuned import TunedCublas
        from worker.cuda.runner import CudaRunner

        self.runner: CudaRunner = CudaRunner(Settings(device="gpu:0"))
        self.compiler, self._sampler = self.runner.compiler, sampler_of(self.runner)
        self._cublas, self._tuned = Cublas(self.compiler), TunedCublas(self.compiler, self._chosen)

    def times(self, kernel: str, problem: Problem) -> dict[str, Any]:
        """Milliseconds by the default heuristic and by the fastest algorithm, and the index of that algorithm among the
        proposals."""
        from worker.cuda.bench.operands import random_set

        at = random_set(self.compiler, problem, DataSpec())
        proposed = self._tuned.ways(f"{kernel}_tuned", UNPADDED, problem, (at.a, at.b, at.c))
        ways: list[Launch] = [partial(self._by_way, way) for way in proposed]
        default: Launch = partial(self._by_default, kernel, problem)
        tried = [median_ms(self._sampler, [way], at, TRIALS)[0] for way in ways]
        best = tried.index(min(tried))
        default_ms, tuned_ms = median_ms(self._sampler, [default, ways[best]], at, SAMPLES)
        return {"default_ms": default_ms, "tuned_ms": min(default_ms, tuned_ms), "ways": len(ways), "best": best}

    def _by_way(self, way: Way, at: OperandSet) -> None:
        self._tuned.launch(way, (at.a, at.b, at.c))

    def _by_default(self, kernel: str, problem: Problem, at: OperandSet) -> None:
        self._chosen(kernel, problem, (at.a, at.b, at.c))

    def _chosen(self, kernel: str, problem: Problem, matrices: Matrices) -> None:
        self._cublas.multiply(kernel, problem, *matrices)


def measured(library: Library, sizes: list[int]) -> Iterator[Mapping[str, Any]]:
    """A row for each of LIBRARIES and each size."""
    for kernel, dtype in LIBRARIES:
        for n in sizes:
            shape = TargetShape(n, n, n)
            row: dict[str, Any] = {"kernel": kernel, "dtype": dtype, "n": n}
            row["as_it_lies"] = library.times(kernel, Problem(*shape[:3], dtype))
            if shape.padded != shape:
                row["padded"] = library.times(kernel, Problem(*shape.padded[:3], dtype))
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    asked = parser.parse_args()
    library = Library()
    record(asked.out, library.runner.device.name, measured(library, asked.sizes))


if __name__ == "__main__":
    main()
