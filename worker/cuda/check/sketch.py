"""The check's sketch of a product on the device: random projections, and what bounds their rounding.

docs/decisions/0017 has the mathematics, `worker/cuda/src/sketch.cu` the kernel. It is one launch on the current stream,
with one allocation. One word is returned at once; everything else only if that word says that some row must be
examined.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.sketch import Sketch
from worker.cuda.check.epilogue import CheckedEpilogue
from worker.cuda.check.matrices import CheckedMatrices
from worker.cuda.check.sketch_argument import (
    NO_DIGESTS,
    SketchParameters,
    can_digest_layouts,
    layouts_of,
    plan_argument,
)
from worker.cuda.check.sketch_plan import ALIGNMENT_BYTES, RESIDENT_BLOCKS, THREADS
from worker.cuda.compile import Compiler
from worker.cuda.digests.launch import PendingDigests
from worker.cuda.results import DeviceResults, as_parameter
from worker.cuda.sources import sketch_program

WORD = (1 << 64) - 1


class SketchOnDevice:
    """With its memory and its argument ready before it is asked for, so that a product's sketch can be prepared while
    the product is computed. Columns are in groups of `width`; `excluded` is uint8 or bool, (batch or 1, n); `digested`
    says which of A, B and C, as `digestible` allows. m, n and k are at least 1."""

    def __init__(
        self,
        matrices: CheckedMatrices,
        width: int,
        digested: tuple[bool, bool, bool] = NO_DIGESTS,
        excluded: Array | None = None,
        epilogue: CheckedEpilogue | None = None,
    ) -> None:
        self.digested, self._epilogue, compiler = digested, epilogue, matrices.compiler
        a, b, c = matrices
        masks = 1 if excluded is None else len(excluded)
        of_words = (a.pitch, b.pitch, c.pitch), (a.stride, b.stride, c.stride)
        self._plan, template, places = plan_argument(layouts_of(matrices, width), masks, digested, *of_words)
        planned = self._plan
        memory = self._memory = cupy.cuda.alloc(planned.bytes)
        memory.memset_async(0, planned.zeroed_bytes)
        self._mask = None if excluded is None else cupy.asarray(np.ascontiguousarray(excluded, dtype=np.uint8))
        self._words = template.copy()
        self._words[:4] = a.address, b.address, c.address, 0 if self._mask is None else self._mask.data.ptr
        self._words[4 : 4 + len(planned.offsets)] += np.uint64(memory.ptr)
        self._floats, self._argument = self._words.view(np.float64), (as_parameter(self._words),)
        self._blocks = min(planned.units, RESIDENT_BLOCKS * multiprocessors())
        self._function = _function(compiler, a.dtype, (a.transposed, b.transposed), c.dtype)
        self._compiler = compiler
        self._worst = DeviceResults(compiler, memory, places.worst, places.worst + 8)
        self.digests: PendingDigests | None = None
        if any(digested):
            of_parts = DeviceResults(compiler, memory, places.digests, planned.bytes)
            self.digests = PendingDigests(places.parts, of_parts)

    def address(self, name: str) -> int:
        """Of an array."""
        return int(self._memory_at(name).ptr)

    def _memory_at(self, name: str) -> Any:
        return self._memory + self._plan.offset(name)

    def launch(self, parameters: SketchParameters) -> None:
        """Once, on the current stream."""
        words = self._words
        words[-8], words[-7], words[-6], words[-5] = (
            parameters.common,
            parameters.wraps,
            parameters.seed & WORD,
            parameters.seed >> 64,
        )
        self._floats[-4:] = parameters.floor2, *parameters.tolerance
        if self._epilogue is not None:
            self._epilogue.weigh(self.address("peaks"))
        self._function((self._blocks, 1, 1), (THREADS, 1, 1), self._argument)
        if self._epilogue is not None:
            self._memory_at("worst").memset_async(0, 8)
            self._epilogue.judge(self.address, self._plan, parameters)
        self._worst.start()
        if self.digests is not None:
            self.digests.start()

    @property
    def done(self) -> Any:
        """The event after the last of what was launched."""
        return (self.digests or self._worst).done

    def worst(self) -> float:
        """The largest ratio of a row's difference to its tolerance, infinite if anything is not finite; of integers,
        if any row is wrong. Waits for the device."""
        return sqrt(self._worst.wait().view(np.float64).item())

    def arrays(self) -> dict[str, Array]:
        """All results by their names, after another round trip."""
        data = DeviceResults(self._compiler, self._memory, *self._plan.results).start().wait()
        return {
            view.name: np.frombuffer(data, view.dtype, view.size, view.begin).reshape(view.shape)
            for view in self._plan.views
        }

    def sketch(self) -> Sketch:
        """Floats."""
        found = self.arrays()
        peaks = found["row_peaks"]
        exponents = np.frexp(peaks.view(np.float64))[1] if peaks.size else np.zeros((1, 1), np.int32)
        flags = {name: found[name].view(np.bool_) for name in ("bad_rows", "bad_columns", "odd_columns")}
        unit = np.sqrt(found["unit"])
        return Sketch(found["difference"], found["q"], found["r"], unit, **flags, exponents=exponents)


def digestible(matrices: CheckedMatrices, width: int) -> tuple[bool, bool, bool]:
    """Which of A, B and C a sketch with groups of so many columns can digest."""
    of_a, of_b, of_c = can_digest_layouts(layouts_of(matrices, width))
    a, b, c = [(each.address | each.matrix.layout.pitch_bytes) % ALIGNMENT_BYTES == 0 for each in matrices]
    return of_a and a, of_b and b, of_c and c


@lru_cache(maxsize=64)
def _function(compiler: Compiler, dtype: DTypeName, transposed: tuple[bool, bool], of_c: DTypeName) -> Any:
    output = None if of_c == DTYPES[dtype].product else of_c
    return compiler.function(sketch_program(dtype, transposed, output=output), "sketch")


@lru_cache(maxsize=1)
def multiprocessors() -> int:
    """The number of multiprocessors of this process's device."""
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])
