"""Every kernel that a GPU runs, several configs of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

from jobs.matrices import STORAGE_DTYPES, Array
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.choose import choose
from kernels.kernel import CudaKernel
from kernels.numerics import Problem
from tests.campaign.backends import Backend, Made, Way
from tests.campaign.scenes import clean, faulty
from tests.stress.cases import Deck
from worker import cuda_runner
from worker.cuda_runner import CudaRunner
from worker.device_memory import upload
from worker.device_sums import MatrixOnDevice
from worker.runner import HostOperand, Product, gathered
from worker.sources import kernel_program
from worker.sums import HostMatrix
from worker.verify import check


class MadeOnGpu(Made):
    """Kept on the device until the next is made, so that each fault is written over it there."""

    def __init__(self, way: Way, problem: Problem, product: Product) -> None:
        self._way, self._problem, self._product = way, problem, product
        bits = gathered(product.chunks())
        shape = problem.batch, problem.m, problem.n
        self.c = np.frombuffer(bits, STORAGE_DTYPES[problem.product_dtype]).reshape(shape)

    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        operands = self._product.matrices
        if isinstance(operands.c, MatrixOnDevice):
            upload(np.ascontiguousarray(c), operands.c.matrix)
        else:
            operands = replace(operands, c=HostMatrix(c, self._problem.product_dtype))
        return bool(check(self._problem, self._way.accuracy, operands, rng).passed)


class GpuBackend(Backend):
    """The GPU that CUDA_VISIBLE_DEVICES leaves to this process. Every other product is checked on the device however
    small it is."""

    def __init__(self, settings: Settings, seed: int, kernels: Collection[str]) -> None:
        self._runner = CudaRunner(settings)
        self.device = self._runner.device
        deck = Deck(seed, self.device.traits, kernels)
        self.ways = tuple(
            Way(kernel.name, way.config, way.dtype, kernel.accuracy[way.dtype], way.transposes)
            for kernel in deck.kernels
            for way in deck.ways(kernel)
        )
        self._count = 0

    def compile_for(self, seed: int, numbers: Iterable[int]) -> None:
        """With all cores, what the products of these numbers will ask for."""
        traits, programs = self.device.traits, set()
        for plan in (drawn(self.ways, seed, number) for drawn in (clean, faulty) for number in numbers):
            kernel = BY_NAME[plan.way.kernel]
            if isinstance(kernel, CudaKernel):
                config = kernel.resolve_config(plan.way.config, plan.problem, traits)
                programs.add(kernel_program(kernel, config, plan.problem))
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._runner.compiler.binary, programs))

    def made(self, way: Way, problem: Problem, a: Array, b: Array) -> MadeOnGpu:
        self._count += 1
        with self._product(way, problem, a, b) as product:
            return MadeOnGpu(way, problem, product)

    def damaged_passes(
        self,
        way: Way,
        problem: Problem,
        sent: tuple[Array, Array],
        damaged: tuple[Array, Array],
        rng: np.random.Generator,
    ) -> bool:
        """The check is given what lies on the device, as a job's is."""
        with self._product(way, problem, *damaged) as product:
            return bool(check(problem, way.accuracy, product.matrices, rng).passed)

    @contextmanager
    def _product(self, way: Way, problem: Problem, a: Array, b: Array) -> Iterator[Product]:
        choice = choose(way.kernel, way.config, problem, way.accuracy, self.device.traits)
        limit = 0 if self._count % 2 else cuda_runner.HOST_CHECK_ELEMENTS
        with (
            mock.patch.object(cuda_runner, "HOST_CHECK_ELEMENTS", limit),
            self._runner.compute(problem, choice, HostOperand(a), HostOperand(b)) as product,
        ):
            yield product
