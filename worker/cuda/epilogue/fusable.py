"""Which products are computed with their epilogue in the kernel itself, and by what (docs/decisions/0064 and 0075).
Needs no device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kernels.catalog import CATALOG
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.fused import FusedEpilogue, may_scale
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.candidates import Choice
from worker.cuda.check.sketch_plan import is_long
from worker.cuda.pitch import operand_layout
from worker.cuda.sources import (
    Program,
    activation_check_program,
    fused_check_program,
    kernel_program,
    sketch_program,
)
from worker.device.operands import HostOperand, WidenedOperand
from worker.device.runner import Epilogue

CHUNK_BYTES = 16  # of C that kernels copy at once, and what bulk copies reach: rows begin at multiples of them
NARROW_CLASSES = ("tf32", "bf16")  # that float32 sums of products of 16-bit operands meet, as they meet their own


@dataclass(frozen=True, slots=True)
class Fusable:
    """A kernel, and what it is to do with its sums. `problem`: A·B of operands as they are stored."""

    kernel: CudaKernel
    config: TileConfig
    problem: Problem
    fused: FusedEpilogue
    alpha: float
    beta: float
    operands: tuple[HostOperand, HostOperand]

    @property
    def operand_types(self) -> tuple[DTypeName, ...]:
        """The types of A, B, and what is added."""
        return self.problem.dtype, self.problem.dtype, self.fused.output, self.fused.output

    @property
    def programs(self) -> Iterator[Program]:
        """The programs that it takes besides those of any product."""
        problem, fused = self.problem, self.fused
        output = None if fused.output == problem.product_dtype else fused.output
        checked: DTypeName = "float32" if problem.scale_columns else problem.dtype  # operands times their scales
        yield kernel_program(self.kernel, self.config, problem, fused=fused)
        yield fused_check_program(checked, fused)
        yield sketch_program(checked, (problem.transpose_a, problem.transpose_b), output=output)
        if fused.activation is not None:
            yield activation_check_program(fused)

    def as_chosen(self, choice: Choice) -> Choice:
        """The choice as it goes into the job's record."""
        added = [name for name, has in (("C", self.fused.has_c), ("the bias", self.fused.has_bias)) if has]
        addends = f" {' and '.join(added)} added" if added else ""
        does = f"{self.kernel.name} stores its float32 sums with alpha{addends}, rounded once"
        does += "" if self.fused.activation is None else f", and {self.fused.activation} of them"
        return Choice(self.kernel, self.config, f"{choice.why.removesuffix('.')}; {does}.")


def fusable(
    problem: Problem,
    choice: Choice,
    operands: Sequence[HostOperand],
    epilogue: Epilogue | None,
    traits: DeviceTraits,
) -> Fusable | None:
    """How the kernel does the epilogue itself; None if a pass after it does, or if there is none. `operands`: A and B
    first."""
    (a, b), added = operands[:2], problem.product_dtype
    if not is_long(problem.batch * problem.m * problem.n, problem.k) or not _has_factors_of_float32(epilogue):
        return None
    output = problem.product_dtype if epilogue is None else epilogue.output_of(problem)
    fused = FusedEpilogue(output) if epilogue is None else FusedEpilogue(output, *epilogue.added, epilogue.activation)
    kernel, config = choice.kernel, choice.config
    if isinstance(a, WidenedOperand) and isinstance(b, WidenedOperand):
        if not (a.is_free and b.is_free) or kernel.accuracy[problem.dtype] not in NARROW_CLASSES:
            return None
        problem = replace(problem, dtype=a.dtype)
        a, b = a.stored, b.stored
        found = _kernel_of(problem, fused, traits)
        if found is None:
            return None
        kernel, config = found, found.resolve_config(NO_CONFIG, problem, traits)
    elif epilogue is None:
        return None
    if not isinstance(kernel, CudaKernel) or not kernel.fuses(problem, config, fused):
        return None
    if (fused.has_c or fused.activation) and operand_layout(output, problem.product_shape).pitch_bytes % CHUNK_BYTES:
        return None
    if fused.activation and DTYPES[output].itemsize < DTYPES[problem.product_dtype].itemsize:
        return None  # sums would be rounded to D's type before the activation too, which the pass does not do
    if epilogue is not None and any(epilogue.added) and output != added:
        return None  # the kernel reads C and the bias in D's type
    alpha, beta = (1.0, 0.0) if epilogue is None else (epilogue.alpha.real, epilogue.beta.real)
    return Fusable(kernel, config, problem, fused, alpha, beta, (a, b))


def _has_factors_of_float32(epilogue: Epilogue | None) -> bool:
    """Whether D follows from A·B by factors that float32 can take, and no caller demands more."""
    if epilogue is None:
        return True
    has_factors = may_scale(epilogue.alpha.real) and (epilogue.c is None or may_scale(epilogue.beta.real))
    is_real = epilogue.alpha.imag == 0.0 == epilogue.beta.imag
    return epilogue.may_fuse and has_factors and is_real


def _kernel_of(problem: Problem, fused: FusedEpilogue, traits: DeviceTraits) -> CudaKernel | None:
    """The one that takes operands as they are stored, where there is one."""
    for kernel in CATALOG:
        if isinstance(kernel, CudaKernel) and fused.output in kernel.fused_outputs.get(problem.dtype, ()):
            return kernel if kernel.unsupported_because(traits, problem.dtype) is None else None
    return None
