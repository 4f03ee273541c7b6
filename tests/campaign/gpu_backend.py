"""Every kernel that a GPU runs, several configs of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from jobs.errors import OperandDamaged
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from jobs.settings import Settings
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from tests.campaign.backends import Backend, Made, Way, as_made
from tests.campaign.hard import Pair
from tests.campaign.scenes import clean, faulty
from tests.stress.cases import Deck
from worker.check.checkable import Checkable
from worker.check.grouped import GroupedProduct
from worker.check.verify import check
from worker.cuda import runner as cuda_runner
from worker.cuda.check.device_product import DeviceProduct
from worker.cuda.check.matrices import MatrixOnDevice
from worker.cuda.memory import upload
from worker.cuda.runner import CudaRunner
from worker.device.operands import HostOperand
from worker.device.runner import Product, gathered, host_operands


class MadeOnGpu(Made):
    """Kept on the device until the next is made, so that each fault is written over it there."""

    def __init__(self, way: Way, problem: Problem, operands: tuple[Array, Array], product: Product) -> None:
        self._way, self._problem, self._operands, self._product = way, problem, operands, product
        self._digest = product.digest  # of the product itself: the first check may be of a faulty one
        bits = gathered(product.chunks())
        shape = problem.batch, problem.m, problem.n
        self.c = np.frombuffer(bits, STORAGE_DTYPES[problem.product_dtype]).reshape(shape)
        self._is_checked = False

    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        c = as_made(self._problem, c)
        matrices: Checkable | GroupedProduct = self._product.matrices
        if isinstance(matrices, DeviceProduct):
            on_device = matrices.elementwise.c
            assert isinstance(on_device, MatrixOnDevice)
            if not self._is_checked and c.tobytes() != self.c.tobytes():
                # The first check takes the sketch that was launched behind the kernel: of the product without a fault.
                check(self._problem, self._way.accuracy, matrices, rng)
            self._is_checked = True
            upload(np.ascontiguousarray(c), on_device.matrix)
        else:
            matrices = host_operands(self._problem, *self._operands, c)
        return bool(check(self._problem, self._way.accuracy, matrices, rng).passed)

    @property
    def digest(self) -> int:
        return self._digest


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
            if not kernel.needs_scales
            for way in deck.ways(kernel)
        )
        self._count = 0

    def compile_for(self, seed: int, numbers: Iterable[int]) -> None:
        """What the products of these numbers will ask for."""
        plans = (drawn(self.ways, seed, number) for drawn in (clean, faulty) for number in numbers)
        self._runner.compile_ahead((self._choice(plan.way, plan.problem), plan.problem) for plan in plans)

    def _choice(self, way: Way, problem: Problem) -> Choice:
        return choose(way.kernel, way.config, problem, way.accuracy, self.device.traits)

    def made(self, way: Way, problem: Problem, a: Array, b: Array) -> MadeOnGpu:
        self._count += 1
        with self._product(way, problem, a, b) as product:
            return MadeOnGpu(way, problem, (a, b), product)

    def damaged_passes(self, way: Way, problem: Problem, sent: Pair, damaged: Pair, rng: np.random.Generator) -> bool:
        """As for a job: the check is given what lies on the device, and digests are those of what was sent."""
        with self._product(way, problem, *damaged, digests=(digest_of(sent[0]), digest_of(sent[1]))) as product:
            try:
                product.verify_operands()
            except OperandDamaged:
                return False
            return bool(check(problem, way.accuracy, product.matrices, rng).passed)

    @contextmanager
    def _product(
        self, way: Way, problem: Problem, a: Array, b: Array, digests: tuple[int | None, int | None] = (None, None)
    ) -> Iterator[Product]:
        choice = self._choice(way, problem)
        operands = HostOperand(a, digest=digests[0]), HostOperand(b, digest=digests[1])
        limit = 0 if self._count % 2 else cuda_runner.HOST_CHECK_ELEMENTS
        with (
            mock.patch.object(cuda_runner, "HOST_CHECK_ELEMENTS", limit),
            self._runner.compute(problem, choice, *operands) as product,
        ):
            yield product
