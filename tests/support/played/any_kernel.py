"""In place of an H200 for `make stress`: products of all its kernels by numpy, with epilogues of their own where they
have such, and jobs that are stacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from jobs.fleet.workers import DeviceInfo
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import Place
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from tests.support.kernels.products import stored
from tests.support.played.stacking import StackingCpu
from tests.support.scaled.operands import true_matrix
from worker.check.elements import as_float64, core
from worker.check.elementwise import Operands
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import Rounding
from worker.check.row_errors import RowErrors
from worker.cpu.activations import activated
from worker.cpu.runner import CpuProduct
from worker.cuda.epilogue.fusable import Fusable, fusable
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product
from worker.device.scaled import ScaledOperand

H200 = DeviceInfo(
    name="NVIDIA H200",
    device_class="gpu",
    compute_capability=(9, 0),
    multiprocessors=132,
    shared_bytes_per_block=232_448,
)
Spoil = Callable[[Array], None]  # of what is delivered, (batch, m, n)


class PlayedGpu(StackingCpu):
    """`spoil`: what goes wrong with each product, and `spoil_sums` with what an epilogue of the kernel's is of."""

    def __init__(self, spoil: Spoil | None = None, spoil_sums: Spoil | None = None) -> None:
        super().__init__(Settings(device="cpu"))
        self.device, self.compiler = H200, MagicMock()
        self._spoil, self._spoil_sums = spoil, spoil_sums

    @contextmanager
    def compute(
        self,
        problem: Problem,
        choice: Choice,
        a: HostOperand,
        b: HostOperand,
        place: Place | None = None,
        *,
        epilogue: Epilogue | None = None,
        check_cancelled: Callable[[], None] = never_cancelled,
        zero_output: bool = False,
    ) -> Iterator[Product]:
        by_blas = replace(choice, kernel=BY_NAME["cpu_blas"], config={})
        own = fusable(problem, choice, (a, b), epilogue, self.device.traits)
        with super().compute(problem, by_blas, a, b, epilogue=epilogue) as product:
            assert isinstance(product, CpuProduct)
            if own is not None:
                product = _Fused(own, product, (a, b), epilogue)
                if self._spoil_sums is not None:
                    self._spoil_sums(product.sums)
                product.made_by = own.as_chosen(choice)
            if self._spoil is not None:
                self._spoil(product._c.reshape(problem.batch, problem.m, problem.n))
                product._digest = digest_of(product._c)
            yield product


class _Fused(CpuProduct):
    """`sums` in float32, rounded once, and `product._c` made of them."""

    def __init__(
        self, own: Fusable, plain: CpuProduct, given: tuple[HostOperand, HostOperand], epilogue: Epilogue | None
    ) -> None:
        problem, output = plain._problem, own.fused.output
        self.sums = stored(_sums(problem, given, epilogue).astype(np.float32), output)
        d = self.sums.copy()
        if own.fused.activation is not None:
            d = stored(activated(own.fused.activation, as_float64(self.sums, output)), output)
        whole = d.reshape(problem.product_shape)
        super().__init__(problem, given, whole, whole, kernel_ms=1.0, device_lock=plain.device_lock)
        self.matrices = _Sums(self.sums, output, problem, self.matrices)  # type: ignore[assignment]  # as one


@dataclass(frozen=True, slots=True)
class _Sums:
    """`Checkable`, of which the check is not played."""

    sums: Array
    output: DTypeName
    problem: Problem
    plain: Any

    @property
    def after(self) -> tuple[float, DTypeName]:
        return 1.0, self.output

    @property
    def elementwise(self) -> Operands:
        return Operands(self.plain.elementwise.a, self.plain.elementwise.b, HostMatrix(self.sums, self.output))

    def direct(self, rounding: Rounding) -> RowErrors:
        nothing = np.zeros((1, 1), np.bool_)
        return RowErrors(np.zeros((self.problem.batch, self.problem.m)), nothing, nothing, nothing)


def _sums(problem: Problem, given: tuple[HostOperand, HostOperand], epilogue: Epilogue | None) -> Array:
    a, b = (
        true_matrix(each) if isinstance(each, ScaledOperand) else as_float64(each.elements, problem.dtype)
        for each in given
    )
    sums: Array = core(a, transposed=problem.transpose_a) @ core(b, transposed=problem.transpose_b)
    sums = np.broadcast_to(sums, (problem.batch, problem.m, problem.n))
    if epilogue is None:
        return sums
    sums = epilogue.alpha.real * sums
    for factor, operand in ((epilogue.beta.real, epilogue.c), (1.0, epilogue.bias)):
        if operand is not None:
            sums = sums + factor * as_float64(core(operand.elements, transposed=False), problem.product_dtype)
    return sums
