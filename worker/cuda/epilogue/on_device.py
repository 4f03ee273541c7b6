"""alpha·P + beta·C, a bias and an activation on the device, by a kernel of ours after whichever multiplied
(`worker/cuda/src/epilogue.cu`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from kernels.model.activations import ActivationName
from kernels.model.numerics import DTYPES, DTypeName, Problem
from worker.cuda.compile import Compiler
from worker.cuda.complex.epilogue import complex_epilogue_launch
from worker.cuda.epilogue.plan import bias_steps, check_launch, epilogue_launch, sizes
from worker.cuda.launch import loaded
from worker.cuda.memory import DeviceMatrix, allocate
from worker.cuda.pitch import operand_layout
from worker.cuda.results import DeviceResults, float_word
from worker.cuda.sources import Program, epilogue_check_program, epilogue_program
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue


@dataclass(frozen=True, slots=True)
class EpilogueOnDevice:
    """`d` is made of `p` = A·B, of `c`, which is None where beta is 0, and of a bias, 1×n or m×1, if there is one."""

    compiler: Compiler
    alpha: complex
    beta: complex
    p: DeviceMatrix
    c: DeviceMatrix | None
    d: DeviceMatrix
    bias: DeviceMatrix | None = None
    activation: ActivationName | None = None

    @property
    def _is_complex(self) -> bool:
        return DTYPES[self.p.layout.dtype].is_complex

    @property
    def _name(self) -> str:
        return "complex_epilogue" if self._is_complex else "epilogue"

    @property
    def _output(self) -> DTypeName | None:
        return None if self.d.layout.dtype == self.p.layout.dtype else self.d.layout.dtype

    @property
    def _asked(self) -> tuple[DTypeName, ActivationName | None, DTypeName | None]:
        return self.p.layout.dtype, self.activation, self._output

    @property
    def addends(self) -> tuple[DeviceMatrix, ...]:
        """C and the bias, if there are any."""
        return tuple(each for each in (self.c, self.bias) if each is not None)

    def on_host(self, addends: Sequence[HostOperand]) -> Epilogue:
        """The epilogue for the check on the host. `addends`: the operands that `self.addends` are copies of."""
        c = addends[0] if self.c is not None else None
        bias = addends[-1] if self.bias is not None else None
        return Epilogue(self.alpha, self.beta, c, bias, self.activation, self._output)

    def load(self) -> None:
        """Loads what `launch` needs, so that this does not count in the product's time."""
        loaded(self._function())

    def launch(self) -> None:
        """Launches the epilogue on the current stream, after the product."""
        planned = complex_epilogue_launch(self.d.layout) if self._is_complex else epilogue_launch(self.d.layout)
        self._function()(planned.grid, planned.block, self._arguments())

    def wrong_elements(self, program: Program | None = None) -> int:
        """The number of elements of `d` that do not follow from `p` and `c`, by another kernel: that of `program`, or
        else the one of this epilogue. Waits for the device."""
        at = self.d.layout
        wrong = cupy.cuda.alloc(8)
        wrong.memset_async(0, 8)
        program = program or epilogue_check_program(*self._asked, has_bias=self.bias is not None)
        check = self.compiler.function(program, f"{self._name}_check")
        planned = complex_epilogue_launch(at) if self._is_complex else check_launch(at)
        check(planned.grid, planned.block, (*self._arguments(), np.uint64(wrong.ptr)))
        return int(DeviceResults(self.compiler, wrong, 0, 8).start().wait().view(np.uint64)[0])

    def _function(self) -> Any:
        program = epilogue_program(*self._asked, has_bias=self.bias is not None)
        return self.compiler.function(program, self._name)

    def _arguments(self) -> tuple[np.generic, ...]:
        p, c, d = self.p, self.c or self.p, self.d  # without C nothing is read there
        matrices = [p, c, d] if self._is_complex else [p, c, d, self.bias or p]
        addresses = (np.uint64(each.address) for each in matrices)
        both = self.alpha, self.beta
        parts = [factor.real for factor in both]
        if self._is_complex:
            parts = [part for factor in both for part in (factor.real, factor.imag)]
        factors = (np.uint64(float_word(part)) for part in parts)
        steps = () if self._is_complex else bias_steps(None if self.bias is None else self.bias.layout)
        return (*addresses, *map(np.int64, sizes(p.layout, c.layout, d.layout)), *factors, *map(np.int64, steps))


def epilogue_on_device(
    compiler: Compiler,
    problem: Problem,
    epilogue: Epilogue | None,
    p: DeviceMatrix,
    addends: Sequence[DeviceMatrix],
) -> EpilogueOnDevice | None:
    """Loaded, with room for D. `addends`: C and the bias, as far as there are such."""
    if epilogue is None:
        return None
    d = allocate(operand_layout(epilogue.output_of(problem), problem.product_shape))
    c = addends[0] if epilogue.c is not None else None
    bias = addends[-1] if epilogue.bias is not None else None
    made = EpilogueOnDevice(compiler, epilogue.alpha, epilogue.beta, p, c, d, bias, epilogue.activation)
    made.load()
    return made
