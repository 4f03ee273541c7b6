"""A product on the device with its operands, as its check asks for it. The twin of
`worker.check.checked.HostProduct`."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import Array
from worker.check.checked import RowErrors
from worker.check.elementwise import Operands
from worker.check.host_matrix import OperandMatrix
from worker.check.rounding import Rounding
from worker.check.sketch import Sketch
from worker.cuda.check.direct import direct
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.sketch import float_sketch, integer_sketch
from worker.cuda.compile import Compiler

SHORT_SUMS, MAX_DIRECT = 64, 1 << 28  # steps, or multiply-adds, that are done again as fast as a sketch


class DeviceProduct:
    """All three matrices lie on the device. Single elements of operands are read from `host`, where they lie in this
    process's memory too."""

    def __init__(
        self,
        compiler: Compiler,
        matrices: tuple[MatrixOnDevice, MatrixOnDevice, MatrixOnDevice],
        host: tuple[OperandMatrix, OperandMatrix],
    ) -> None:
        self._compiler = compiler
        self._matrices = matrices
        self._host = host

    @property
    def elementwise(self) -> Operands:
        return Operands(*self._host, self._matrices[2])

    def direct(self, rounding: Rounding) -> RowErrors | None:
        batch, m, n = self._matrices[2].shape
        is_long = rounding.k > SHORT_SUMS and batch * m * n * rounding.k > MAX_DIRECT
        if is_long or rounding.normwise or rounding.operand_floor:
            return None
        return direct(self._compiler, self._matrices, rounding.element_factors)

    def sketch(
        self, *, width: int, floor: float, common: bool, excluded: Array | None, rng: np.random.Generator
    ) -> Sketch:
        return float_sketch(
            self._compiler,
            self._matrices,
            width=width,
            seed=_seed(rng),
            floor2=floor**2,
            common=common,
            excluded=excluded,
        )

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        return integer_sketch(self._compiler, self._matrices, seed=_seed(rng), wraps=wraps).copy()


def _seed(rng: np.random.Generator) -> int:
    """128 random bits."""
    return int.from_bytes(rng.bytes(16), "little")
