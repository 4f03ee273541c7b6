"""Measures grouped products on a GPU: rows of A in groups of random sizes, each multiplied by its own matrix, in one
launch; compared with a cuBLAS call for each group and cuBLAS's own grouped product (cublasGemmGroupedBatchedEx).

    python -m benchmarks.measure.interleaved.grouped --out benchmarks/results/h100_grouped.json

Times are medians of alternating samples with a cold cache; launches are queued before they are timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure.interleaved.launches import kernel_launch, library_launches
from benchmarks.measure.interleaved.timing import Launch, record, rounded, sampler_of, times_ms
from jobs.benchmarks.spec import DataSpec
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.groups import groups_of
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.library.cublas import Cublas
    from worker.cuda.runner import CudaRunner

SEED, SAMPLES = 24, 9
LIBRARY = "cublas"
PUBLISHED = "cublasGemmGroupedBatchedEx"
MAX_ONE_CALL_GROUPS = 16  # in cuBLAS's single call: one with 64 did not return


@dataclass(frozen=True, slots=True)
class Shape:
    """Groups of `min_rows` to `max_rows`."""

    dtype: DTypeName
    groups: int
    min_rows: int
    max_rows: int
    n: int
    k: int
    transposed: bool = False  # whether B is transposed, and so K-major

    @property
    def problem(self) -> Problem:
        rows = np.random.default_rng(SEED).integers(self.min_rows, self.max_rows, self.groups, endpoint=True)
        sizes = tuple(map(int, rows))
        return Problem(sum(sizes), self.n, self.k, self.dtype, transpose_b=self.transposed, group_sizes=sizes)


# Layers of experts, as in Mixtral 8×7B (n 14336, k 4096); layers with more, smaller groups; many small products.
SHAPES: tuple[Shape, ...] = (
    Shape("bfloat16", 8, 0, 512, 14336, 4096),
    Shape("bfloat16", 8, 0, 512, 14336, 4096, transposed=True),
    Shape("bfloat16", 8, 0, 512, 4096, 4096),
    Shape("bfloat16", 16, 0, 512, 4096, 4096),
    Shape("bfloat16", 64, 0, 512, 4096, 4096, transposed=True),
    Shape("bfloat16", 64, 0, 64, 4096, 4096),
    Shape("float16", 64, 16, 256, 256, 256),
    Shape("float32", 64, 16, 256, 128, 128),
    Shape("float32", 64, 16, 256, 256, 256),
    Shape("float32", 8, 0, 512, 4096, 4096),
    Shape("float64", 64, 16, 256, 256, 256),
)
# Further configs of some kernels.
OTHERS: Mapping[str, tuple[TileConfig, ...]] = {
    **{
        name: tuple({"block_n": n, "stages": s, "cluster": c} for n, s, c in ((256, 4, 1), (256, 4, 2), (128, 6, 2)))
        for name in ("hopper_bf16", "hopper_fp16")
    },
    "pipelined": ({"block_m": 64, "block_n": 64}, {"block_m": 64, "block_n": 128}, {"block_m": 128, "block_n": 128}),
}


def configs(runner: CudaRunner, problem: Problem) -> Iterator[Choice]:
    """Configs of our fastest kernel: the one that a job gets, then others."""
    traits = runner.device.traits
    names = ("hopper_bf16", "hopper_fp16", "pipelined", "warp_tiled")
    name = next(each for each in names if problem.dtype in BY_NAME[each].accuracy and _runs(each, runner))
    own = choose(name, {}, problem, BY_NAME[name].accuracy[problem.dtype], traits)
    yield own
    for config in OTHERS.get(name, ()):
        if config.items() - own.config.items():
            yield Choice(own.kernel, own.kernel.resolve_config(config, problem, traits), "")


def _runs(name: str, runner: CudaRunner) -> bool:
    return BY_NAME[name].unsupported_because(runner.device.traits) is None


def published(problem: Problem, at: OperandSet) -> Launch:
    """cuBLAS's own grouped product."""
    import cupy

    from worker.cuda.grouped.slices import matrices_of
    from worker.cuda.library.grouped import Published

    call = Published([(group.problem, *matrices_of(group, (at.a, at.b, at.c))) for group in groups_of(problem)])
    return lambda _: call.put(cupy.cuda.get_current_stream().ptr)


def launches_of(
    runner: CudaRunner, cublas: Cublas, problem: Problem, at: OperandSet, *, one_call: bool
) -> dict[str, Launch]:
    """Launches that compute the product, by their names in a row; the one that a job gets comes first."""

    def ours(choice: Choice) -> Launch:
        assert isinstance(choice.kernel, CudaKernel)
        return kernel_launch(runner, choice.kernel, choice.config, problem)

    found = {_named(choice): ours(choice) for choice in configs(runner, problem)}
    found |= library_launches(cublas, problem, [LIBRARY])
    return {**found, PUBLISHED: published(problem, at)} if one_call else found


def _named(choice: Choice) -> str:
    sizes = (str(choice.config[each]) for each in ("block_m", "block_n", "cluster") if each in choice.config)
    return f"{choice.kernel.name} {'x'.join(sizes)}"


def measured(runner: CudaRunner, shapes: Sequence[Shape], max_groups: int) -> Iterator[Mapping[str, Any]]:
    """A row for each shape: times in milliseconds."""
    from worker.cuda.bench.operands import random_set
    from worker.cuda.library.cublas import Cublas

    sampler, cublas = sampler_of(runner), Cublas(runner.compiler)
    for shape in shapes:
        problem = shape.problem
        at = random_set(runner.compiler, problem, DataSpec())
        launches = launches_of(runner, cublas, problem, at, one_call=shape.groups <= max_groups)
        times = times_ms(sampler, launches, at, SAMPLES)
        first = next(iter(times.values()))
        library = min(times[name] for name in (LIBRARY, PUBLISHED) if name in times)
        about = {"dtype": shape.dtype, "groups": shape.groups, "rows": problem.m, "n": shape.n, "k": shape.k}
        figures = {"gflops": round(problem.flops / first / 1e6, 1), "of_library": round(library / first, 3)}
        yield {**about, "transposed": shape.transposed, **figures, "ms": rounded(times)}


def main() -> None:
    from worker.cuda.runner import CudaRunner

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtypes", nargs="*", default=sorted({shape.dtype for shape in SHAPES}))
    parser.add_argument(
        "--one-call-groups", type=int, default=MAX_ONE_CALL_GROUPS, help="cuBLAS's grouped call up to so many"
    )
    asked = parser.parse_args()
    runner = CudaRunner(Settings(device="gpu:0"))
    shapes = [shape for shape in SHAPES if shape.dtype in asked.dtypes]
    runner.compile_ahead((choice, shape.problem) for shape in shapes for choice in configs(runner, shape.problem))
    record(asked.out, runner.device.name, measured(runner, shapes, asked.one_call_groups))


if __name__ == "__main__":
    main()
