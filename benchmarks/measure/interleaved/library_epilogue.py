"""cublasLt's own epilogues, to compare ours with: a bias and one of its two activations, without the output that a
check would need. Its GELU is the approximation by tanh. Numbers are those of cublasLt.h ("cublasLtEpilogue_t").
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.measure.interleaved.timing import Launch
from kernels.model.activations import ActivationName
from kernels.model.numerics import Problem
from kernels.model.padding import MAX_PAD
from worker.cuda.library.cublas_tuned import TunedCublas
from worker.cuda.memory import Matrices

if TYPE_CHECKING:
    from worker.cuda.compile import Compiler
    from worker.cuda.memory import DeviceMatrix

EPILOGUE, BIAS_POINTER = 7, 8  # attributes of a product
WITH_BIAS: Mapping[ActivationName | None, int] = {None: 4, "relu": 6, "gelu_tanh": 36}


class Following(TunedCublas):
    """Products with the same epilogue."""

    def __init__(self, compiler: Compiler, epilogue: int, bias: DeviceMatrix) -> None:
        self._epilogue, self._bias = epilogue, bias
        super().__init__(compiler, lambda *_: None)

    def call(self, function: str, *arguments: Any) -> None:
        super().call(function, *arguments)
        if function == "cublasLtMatmulDescCreate":
            product = arguments[0]._obj
            self.set("MatmulDesc", product, EPILOGUE, ctypes.c_uint32(self._epilogue))
            self.set("MatmulDesc", product, BIAS_POINTER, ctypes.c_uint64(self._bias.address))

    def fastest(self, kernel: str, problem: Problem, matrices: Matrices) -> Launch:
        """The fastest of its proposals. Raises KernelUnavailable if there are none."""
        ways = [partial(self.launch, way, matrices) for way in self.ways(kernel, MAX_PAD, problem, matrices)]
        way = ways[self._trial.fastest(ways)]
        return lambda _: way()
