"""A product on the device with its operands, for its check. The twin of
`worker.check.checked.HostProduct`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.elementwise import Operands
from worker.check.host_matrix import OperandMatrix
from worker.check.rounding import Rounding
from worker.check.row_errors import AllWithin, RowErrors, row_errors
from worker.check.verify import group_width
from worker.cuda.check.direct import direct
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.product_digests import ProductDigests
from worker.cuda.check.sketch import NO_DIGESTS, Asked, Fused, SketchOnDevice
from worker.cuda.check.sketch_plan import is_long
from worker.cuda.compile import Compiler


class DeviceProduct:
    """All three matrices lie on the device. Single elements of operands are read from `host`, where they lie in this
    process's memory too. `digests` are taken before anything is read, or as it is read."""

    def __init__(
        self,
        compiler: Compiler,
        matrices: tuple[MatrixOnDevice, MatrixOnDevice, MatrixOnDevice],
        host: tuple[OperandMatrix, OperandMatrix],
        digests: ProductDigests | None = None,
        fused: Fused | None = None,
        sketched: Callable[[], None] | None = None,
    ) -> None:
        """`fused`: where the third matrix has an epilogue. Such products are long, so each is sketched. `sketched` is
        called when a sketch is on the stream and before it is waited for."""
        self._compiler = compiler
        self._matrices = matrices
        self._host = host
        self._digests, self._fused, self._sketched = digests, fused, sketched
        self._prepared: SketchOnDevice | None = None

    def prepare(self) -> None:
        """Prepares the check as far as possible before the product is computed."""
        if self._prepared is not None:
            return
        c, k = self._matrices[2], self._matrices[0].shape[2]
        is_integer = c.dtype == "int32"
        if prod(c.shape) and k and (is_integer or self._is_long(k)):
            self._prepared = self._sketch(c.shape[2] if is_integer else group_width(k), None)

    @property
    def after(self) -> tuple[float, DTypeName] | None:
        return None if self._fused is None else (self._fused.alpha, self._matrices[2].dtype)

    @property
    def elementwise(self) -> Operands:
        self._begin_digests()
        return Operands(*self._host, self._matrices[2], None if self._fused is None else self._fused.added)

    def direct(self, rounding: Rounding) -> RowErrors | None:
        if self._fused is not None or self._is_long(rounding.k) or rounding.normwise or rounding.operand_floor:
            return None
        self._begin_digests()
        return direct(self._compiler, self._matrices, rounding.element_factors)

    def _is_long(self, k: int) -> bool:
        return is_long(prod(self._matrices[2].shape), k)

    def sketched(
        self, rounding: Rounding, *, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> RowErrors | AllWithin:
        sketch = self._sketch(width, excluded)
        factors = rounding.tolerance_factors
        floor, fused = rounding.floor**2, rounding.fused_factors
        self._launch(sketch, Asked(_seed(rng), floor, rounding.normwise, tolerance=factors, fused=fused))
        # Where errors are in proportion to the largest rows, the device knows no row's tolerance.
        if not rounding.normwise and (worst := sketch.worst()) <= 1.0:
            return AllWithin(worst)
        return row_errors(sketch.sketch(), rounding)

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        batch, m, n = self._matrices[2].shape
        sketch = self._sketch(n, None)
        self._launch(sketch, Asked(_seed(rng), wraps=wraps))
        if sketch.worst() == 0.0:
            return np.zeros((batch, m), np.bool_)
        return sketch.arrays()["bad_rows"].view(np.bool_).copy()

    def _sketch(self, width: int, excluded: Array | None) -> SketchOnDevice:
        """The prepared one, unless digests have been taken otherwise since."""
        digested = NO_DIGESTS if self._digests is None else self._digests.waiting
        prepared, self._prepared = self._prepared, None
        if prepared is not None and excluded is None and prepared.digested == digested:
            return prepared
        return SketchOnDevice(self._compiler, self._matrices, width, digested, excluded, self._fused)

    def _launch(self, sketch: SketchOnDevice, asked: Asked) -> None:
        sketch.launch(asked)
        if self._sketched is not None:
            self._sketched()
        if sketch.digests is not None and self._digests is not None:
            self._digests.taken(sketch.digests)

    def _begin_digests(self) -> None:
        if self._digests is not None:
            self._digests.begin()


def _seed(rng: np.random.Generator) -> int:
    """128 random bits."""
    return int.from_bytes(rng.bytes(16), "little")
