"""A product on the device with its operands: answers what `worker.check.verify` asks. The twin of
`worker.check.checkable.HostProduct`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from worker.check.elementwise import Operands, worst_of
from worker.check.host_matrix import OperandMatrix
from worker.check.rounding import Rounding
from worker.check.row_errors import AllWithin, RowErrors, row_errors
from worker.check.verify import delivered_rounding, group_width, wraps
from worker.cuda.check.epilogue import CheckedEpilogue
from worker.cuda.check.every_element import check_every_element
from worker.cuda.check.matrices import CheckedMatrices
from worker.cuda.check.recheck import Cores, Recheck
from worker.cuda.check.recheck_plan import can_recheck
from worker.cuda.check.sketch import SketchOnDevice
from worker.cuda.check.sketch_argument import NO_DIGESTS, SketchParameters
from worker.cuda.check.sketch_plan import is_long
from worker.cuda.digests.of_product import ProductDigests
from worker.device.random_bits import fresh_bits


class _Launched(NamedTuple):
    """A sketch of all columns that is on the stream already. `parameters` is without its seed."""

    sketch: SketchOnDevice
    parameters: SketchParameters


class DeviceProduct:
    """All three matrices lie on the device. Single elements of operands are read from `host`, where they lie in this
    process's memory too. `digests` are taken before anything is read, or as it is read."""

    def __init__(
        self,
        matrices: CheckedMatrices,
        host: tuple[OperandMatrix, OperandMatrix],
        *,
        digests: ProductDigests | None = None,
        epilogue: CheckedEpilogue | None = None,
        sketched: Callable[[], None] | None = None,
        cores: Cores | None = None,
    ) -> None:
        """`epilogue`: where the third matrix has one. Such products are long, so each is sketched. `sketched` is
        called when a sketch is on the stream and before it is waited for; the matrices stay where they are.
        `cores` are for what is launched after it; without them, all of this has the device to itself."""
        self._matrices, self._host = matrices, host
        self._digests, self._epilogue, self._sketched, self._cores = digests, epilogue, sketched, cores
        self._prepared: SketchOnDevice | None = None
        self._ahead: _Launched | None = None

    def prepare(self) -> None:
        """Prepares the check as far as possible before the product is computed."""
        if self._prepared is not None:
            return
        c, k = self._matrices.c, self._matrices.a.shape[2]
        is_integer = c.dtype == "int32"
        if prod(c.shape) and k and (is_integer or self._is_long(k)):
            self._prepared = self._sketch(c.shape[2] if is_integer else group_width(c.shape[2], k), None)

    def launch_ahead(self, problem: Problem, accuracy: AccuracyName) -> Any:
        """Puts the sketch that the check of `problem` will ask for on the current stream, behind the product's kernel,
        which knows nothing of the seed: it is drawn now. Returns the event that the sketch ends with, or None where
        nothing was prepared."""
        sketch, self._prepared = self._prepared, None
        if sketch is None:
            return None
        real = problem.as_real
        if real.product_dtype == "int32":
            parameters = SketchParameters(wraps=wraps(real))
        else:
            parameters = _parameters_of(delivered_rounding(real, accuracy, self.after))
        self._launch(sketch, parameters._replace(seed=fresh_bits()))
        self._ahead = _Launched(sketch, parameters)
        return sketch.done

    @property
    def after(self) -> tuple[float, DTypeName] | None:
        return None if self._epilogue is None else (self._epilogue.alpha, self._matrices.c.dtype)

    @property
    def elementwise(self) -> Operands:
        self._begin_digests()
        return Operands(*self._host, self._matrices.c, None if self._epilogue is None else self._epilogue.added)

    def direct(self, rounding: Rounding) -> RowErrors | None:
        if self._epilogue is not None or self._is_long(rounding.k) or rounding.normwise or not rounding.keeps_exponents:
            return None
        self._begin_digests()
        return check_every_element(self._matrices, rounding.element_factors)

    def _is_long(self, k: int) -> bool:
        return is_long(prod(self._matrices.c.shape), k)

    def sketched(
        self, rounding: Rounding, *, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> RowErrors | AllWithin:
        sketch = self._launched(_parameters_of(rounding), width, excluded, rng)
        # Where errors are in proportion to the largest rows, the device knows no row's tolerance.
        if not rounding.normwise and (worst := sketch.worst()) <= 1.0:
            return AllWithin(worst)
        return row_errors(sketch.sketch(), rounding)

    def recomputed(self, rows: Array, columns: Array, rounding: Rounding) -> float:
        operands = self.elementwise
        if not can_recheck(rounding):
            return worst_of(operands, rows, columns, rounding)
        again = Recheck(self._matrices, operands, rounding, self._epilogue, self._cores)
        return again.worst(rows, columns)

    def wrong_rows(self, *, wraps: bool, rng: np.random.Generator) -> Array:
        batch, m, n = self._matrices.c.shape
        sketch = self._launched(SketchParameters(wraps=wraps), n, None, rng)
        if sketch.worst() == 0.0:
            return np.zeros((batch, m), np.bool_)
        return sketch.arrays()["bad_rows"].view(np.bool_).copy()

    def _launched(
        self, parameters: SketchParameters, width: int, excluded: Array | None, rng: np.random.Generator
    ) -> SketchOnDevice:
        """The one that was launched ahead, where it is what is asked for now, and only once."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.parameters == parameters and excluded is None:
            return ahead.sketch
        sketch = self._sketch(width, excluded)
        self._launch(sketch, parameters._replace(seed=_seed(rng)))
        return sketch

    def _sketch(self, width: int, excluded: Array | None) -> SketchOnDevice:
        """The prepared one, unless digests have been taken otherwise since."""
        digested = NO_DIGESTS if self._digests is None else self._digests.waiting
        prepared, self._prepared = self._prepared, None
        if prepared is not None and excluded is None and prepared.digested == digested:
            return prepared
        return SketchOnDevice(self._matrices, width, digested, excluded, self._epilogue)

    def _launch(self, sketch: SketchOnDevice, parameters: SketchParameters) -> None:
        sketch.launch(parameters)
        if self._sketched is not None:
            self._sketched()
        if sketch.digests is not None and self._digests is not None:
            self._digests.taken(sketch.digests)

    def _begin_digests(self) -> None:
        if self._digests is not None:
            self._digests.begin()


@lru_cache(maxsize=256)
def _parameters_of(rounding: Rounding) -> SketchParameters:
    """What a sketch is asked for floats that round so, without a seed."""
    factors, fused = rounding.tolerance_factors, rounding.fused_factors
    return SketchParameters(floor2=rounding.floor**2, common=rounding.normwise, tolerance=factors, fused=fused)


def _seed(rng: np.random.Generator) -> int:
    """128 random bits."""
    return int.from_bytes(rng.bytes(16), "little")
