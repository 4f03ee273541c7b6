"""alpha·P + beta·C on the device, by a kernel of ours after whichever multiplied (`worker/cuda/src/epilogue.cu`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from kernels.model.numerics import DTYPES
from worker.cuda.compile import Compiler
from worker.cuda.complex.epilogue import complex_epilogue_launch
from worker.cuda.epilogue.plan import check_launch, epilogue_launch, sizes
from worker.cuda.launch import loaded
from worker.cuda.memory import DeviceMatrix
from worker.cuda.results import DeviceResults, float_word
from worker.cuda.sources import epilogue_check_program, epilogue_program


@dataclass(frozen=True, slots=True)
class EpilogueOnDevice:
    """`d` is made of `p` = A·B and `c`, which is None where beta is 0."""

    compiler: Compiler
    alpha: complex
    beta: complex
    p: DeviceMatrix
    c: DeviceMatrix | None
    d: DeviceMatrix

    @property
    def _is_complex(self) -> bool:
        return DTYPES[self.d.layout.dtype].is_complex

    @property
    def _name(self) -> str:
        return "complex_epilogue" if self._is_complex else "epilogue"

    def load(self) -> None:
        """What `launch` needs, so that this is not in the time of the product."""
        loaded(self._function())

    def launch(self) -> None:
        """On the current stream, behind the product."""
        planned = complex_epilogue_launch(self.d.layout) if self._is_complex else epilogue_launch(self.d.layout)
        self._function()(planned.grid, planned.block, self._arguments())

    def wrong_elements(self) -> int:
        """How many elements of `d` do not follow from `p` and `c`, by another kernel. Waits for the device."""
        at = self.d.layout
        wrong = cupy.cuda.alloc(8)
        wrong.memset_async(0, 8)
        check = self.compiler.function(epilogue_check_program(at.dtype), f"{self._name}_check")
        planned = complex_epilogue_launch(at) if self._is_complex else check_launch(at)
        check(planned.grid, planned.block, (*self._arguments(), np.uint64(wrong.ptr)))
        return int(DeviceResults(wrong, 0, 8).start().wait().view(np.uint64)[0])

    def _function(self) -> Any:
        return self.compiler.function(epilogue_program(self.d.layout.dtype), self._name)

    def _arguments(self) -> tuple[np.generic, ...]:
        p, c, d = self.p, self.c or self.p, self.d  # without C nothing is read there
        addresses = (np.uint64(each.address) for each in (p, c, d))
        both = self.alpha, self.beta
        parts = [factor.real for factor in both]
        if self._is_complex:
            parts = [part for factor in both for part in (factor.real, factor.imag)]
        factors = (np.uint64(float_word(part)) for part in parts)
        return (*addresses, *map(np.int64, sizes(p.layout, c.layout, d.layout)), *factors)
