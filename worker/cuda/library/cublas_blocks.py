"""cublasLt's own product of 8-bit floats with block scales, which it has on Hopper since CUDA 12.9. Of the ways that it
proposes the fastest at a problem's first use is kept for the next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

from jobs.errors import KernelUnavailable
from kernels.model.numerics import DTypeName, Problem
from worker.cuda.compile import Compiler
from worker.cuda.library.cublas_lt import BY_BLOCK, BY_VECTOR, CublasLt, LtProduct
from worker.cuda.library.trial import Trial
from worker.cuda.memory import DeviceMatrix, Matrices
from worker.cuda.pitch import Layout, in_groups
from worker.cuda.scaled.on_device import ScalesOnDevice

FIRST_VERSION = 120_900  # of cublasLt
PROPOSED = 8  # ways
OUTPUTS: Mapping[DTypeName, int] = {"float32": 0, "float16": 2, "bfloat16": 14}  # cudaDataType_t
KEPT = 4096  # problems
DepthFirst = Callable[[Problem, DeviceMatrix, DeviceMatrix], tuple[Problem, DeviceMatrix, DeviceMatrix]]


class BlockScaledCublas:
    """For the current device, and for one thread."""

    def __init__(self, compiler: Compiler, lt: CublasLt, depth_first: DepthFirst) -> None:
        """`depth_first` gives the same product with both operands contiguous along k. Raises KernelUnavailable."""
        if (version := lt.version) < FIRST_VERSION:
            raise KernelUnavailable(
                f"cublasLt {version // 10_000}.{version // 100 % 100} has no products with block scales, which came "
                "with 12.9; use another kernel."
            )
        self._lt, self._depth_first, self._trial = lt, depth_first, Trial(compiler)
        self._fastest: OrderedDict[tuple[Problem, tuple[Layout, ...]], int] = OrderedDict()

    def multiplication(self, problem: Problem, scales: ScalesOnDevice, matrices: Matrices) -> Callable[[], None]:
        """Puts the product on the current stream, once the fastest way is known. Raises KernelUnavailable,
        DeviceFault."""
        if not problem.flops:
            return partial(_clear, matrices[2])
        launch = partial(self._multiply, problem, scales, matrices)
        key = problem, tuple(each.layout for each in matrices)
        if (way := self._fastest.pop(key, None)) is None:
            way = self._trial.fastest([partial(launch, way) for way in range(self._count(problem, scales, matrices))])
        self._fastest[key] = way
        if len(self._fastest) > KEPT:
            self._fastest.popitem(last=False)
        return partial(launch, way)

    def _count(self, problem: Problem, scales: ScalesOnDevice, matrices: Matrices) -> int:
        a, b, c = matrices
        _, a, b = self._depth_first(problem, a, b)
        return self._lt.ways(_described(problem, (a, b, c)), scales.addresses(0))

    def _multiply(self, problem: Problem, scales: ScalesOnDevice, matrices: Matrices, way: int) -> None:
        """Multiplies the products of a batch one after the other: the library does not define a layout for a batch of
        scales."""
        a, b, c = matrices
        _, a, b = self._depth_first(problem, a, b)
        product = _described(problem, (a, b, c))
        for item in range(problem.batch):
            at_a, at_b, at_c = (each.address + item * each.layout.stride * each.layout.itemsize for each in (a, b, c))
            self._lt.multiply(product, (at_a, at_b, at_c), scales.addresses(item), way)


def _described(problem: Problem, matrices: Matrices) -> LtProduct:
    m, n, k = map(in_groups, (problem.m, problem.n, problem.k))
    a, b, c = (each.layout.pitch for each in matrices)
    modes = BY_VECTOR, BY_VECTOR if problem.scale_columns == 1 else BY_BLOCK
    return LtProduct(
        m, n, k, 1, (a, b, c), (0, 0, 0), output=OUTPUTS[matrices[2].layout.dtype], modes=modes, proposals=PROPOSED
    )


def _clear(c: DeviceMatrix) -> None:
    c.memory.memset_async(0, c.layout.bytes)
