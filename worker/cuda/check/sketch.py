"""The check's sketch of a product on the device: random projections, and what bounds their rounding.

docs/decisions/0017 has the mathematics, `worker/cuda/src/sketch.cu` the kernel. It is one launch on the current stream,
with one allocation. One word is returned at once; everything else only if that word says that some row must be
examined.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple, Protocol

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.elementwise import Added
from worker.check.sketch import Sketch
from worker.cuda.check.digest import PendingDigests, Place
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.sketch_plan import (
    ALIGNMENT_BYTES,
    RESIDENT_BLOCKS,
    THREADS,
    Geometry,
    SketchPlan,
    can_digest,
    plan,
)
from worker.cuda.compile import Compiler
from worker.cuda.memory import DeviceMatrix
from worker.cuda.results import DeviceResults, as_parameter
from worker.cuda.sources import sketch_program

WORD = (1 << 64) - 1
PARAMETER_WORDS = 8  # of the argument, its last: what `SketchParameters` has
NO_DIGESTS = (False, False, False)
Matrices = tuple[MatrixOnDevice, MatrixOnDevice, MatrixOnDevice]  # A, B and C


class SketchParameters(NamedTuple):
    """The parameters of a sketch, besides its matrices. `seed` has 128 random bits."""

    seed: int = 0
    floor2: float = 0.0  # the square of `Rounding.floor`
    common: bool = False  # columns of B are scaled alike, by the largest; not for float64
    wraps: bool = False  # integers: sums may pass 32 bits, so projections are compared modulo 2³²
    tolerance: tuple[float, float, float] = (0.0, 0.0, 0.0)  # `Rounding.tolerance_factors`
    fused: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # `Rounding.fused_factors`


class Fused(Protocol):
    """What comes before and after the sketch of a product with an epilogue of its kernel's, on the current stream."""

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def c(self) -> DeviceMatrix | None: ...

    @property
    def bias(self) -> DeviceMatrix | None: ...

    @property
    def bias_steps(self) -> tuple[int, int]:
        """From row to row, and from column to column, of the product."""

    @property
    def added(self) -> Added:
        """For single elements, which the host computes again."""

    def weigh(self, peaks: int) -> None:
        """Adds to the sums of squares of B's columns, at that address, what is added to the product's."""

    def judge(self, address_of: Callable[[str], int], plan: SketchPlan, parameters: SketchParameters) -> None:
        """Compares projections. `address_of` gives those of the sketch's arrays."""


class SketchOnDevice:
    """With its memory and its argument ready before it is asked for, so that a product's sketch can be prepared while
    the product is computed. Columns are in groups of `width`; `excluded` is uint8 or bool, (batch or 1, n); `digested`
    says which of A, B and C, as `digestible` allows. m, n and k are at least 1."""

    def __init__(
        self,
        compiler: Compiler,
        matrices: Matrices,
        width: int,
        digested: tuple[bool, bool, bool] = NO_DIGESTS,
        excluded: Array | None = None,
        fused: Fused | None = None,
    ) -> None:
        self.digested, self._fused = digested, fused
        a, b, c = matrices
        masks = 1 if excluded is None else len(excluded)
        of_words = (a.pitch, b.pitch, c.pitch), (a.stride, b.stride, c.stride)
        self._plan, template, places = _planned(_lies(matrices, width), masks, digested, *of_words)
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
        if self._fused is not None:
            self._fused.weigh(self.address("peaks"))
        self._function((self._blocks, 1, 1), (THREADS, 1, 1), self._argument)
        if self._fused is not None:
            self._memory_at("worst").memset_async(0, 8)
            self._fused.judge(self.address, self._plan, parameters)
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


def float_sketch(
    compiler: Compiler,
    matrices: Matrices,
    *,
    width: int,
    seed: int,
    floor2: float = 0.0,
    common: bool = False,
    excluded: Array | None = None,
) -> Sketch:
    """`excluded` is uint8 or bool, (batch or 1, n). m, n and k are at least 1."""
    sketch = SketchOnDevice(compiler, matrices, width, excluded=excluded)
    sketch.launch(SketchParameters(seed, floor2, common))
    return sketch.sketch()


def integer_sketch(compiler: Compiler, matrices: Matrices, *, seed: int, wraps: bool) -> Array:
    """bool (batch, m): rows in which some projection differs. m, n and k are at least 1."""
    sketch = SketchOnDevice(compiler, matrices, matrices[2].shape[2])
    sketch.launch(SketchParameters(seed, wraps=wraps))
    return sketch.arrays()["bad_rows"].view(np.bool_)


def digestible(matrices: Matrices, width: int) -> tuple[bool, bool, bool]:
    """Which of A, B and C a sketch with groups of so many columns can digest."""
    of_a, of_b, of_c = _can_digest(_lies(matrices, width))
    a, b, c = [(each.address | each.matrix.layout.pitch_bytes) % ALIGNMENT_BYTES == 0 for each in matrices]
    return of_a and a, of_b and b, of_c and c


class _Lies(NamedTuple):
    """How A, B and C lie, and the columns of a group: what a geometry follows from."""

    dtype: DTypeName
    output: DTypeName
    transposed: tuple[bool, bool]
    a: tuple[int, int, int]
    b: tuple[int, int, int]
    c: tuple[int, int, int]
    width: int


def _lies(matrices: Matrices, width: int) -> _Lies:
    a, b, c = matrices
    return _Lies(a.dtype, c.dtype, (a.transposed, b.transposed), a.shape, b.shape, c.shape, width)


@lru_cache(maxsize=256)
def _can_digest(lies: _Lies) -> tuple[bool, bool, bool]:
    return can_digest(_geometry(lies, 1, NO_DIGESTS))


class _Places(NamedTuple):
    """Where results lie in a sketch's memory: in bytes, and in words from the first digest on."""

    worst: int
    digests: int
    parts: list[Place]


@lru_cache(maxsize=256)
def _planned(
    lies: _Lies,
    masks: int,
    digested: tuple[bool, bool, bool],
    pitches: tuple[int, int, int],
    strides: tuple[int, int, int],
) -> tuple[SketchPlan, Array, _Places]:
    """The plan, and the kernel's argument without addresses, which begins with four and has offsets in the place of
    those in the sketch's own memory."""
    planned = plan(_geometry(lies, masks, digested))
    words = [*[0] * 4, *planned.offsets, lies.c[1], lies.c[2], lies.a[2], *pitches, *strides, *planned.numbers]
    begin = planned.offset("parts_a")
    at = (planned.offset(f"parts_{name}") - begin for name in "abc")
    parts = [Place(place // 8, count) for place, count in zip(at, planned.parts, strict=True) if count]
    template = np.array([*words, *[0] * PARAMETER_WORDS], np.uint64)
    return planned, template, _Places(planned.offset("worst"), begin, parts)


def _geometry(lies: _Lies, masks: int, digested: tuple[bool, bool, bool]) -> Geometry:
    (batch, m, n), k = lies.c, lies.a[2]
    items = (batch, lies.a[0], lies.b[0], max(lies.b[0], masks))
    return Geometry(lies.dtype, lies.transposed, m, n, k, *items, min(lies.width, n), digested, output=lies.output)


@lru_cache(maxsize=64)
def _function(compiler: Compiler, dtype: DTypeName, transposed: tuple[bool, bool], of_c: DTypeName) -> Any:
    output = None if of_c == DTYPES[dtype].product else of_c
    return compiler.function(sketch_program(dtype, transposed, output=output), "sketch")


@lru_cache(maxsize=1)
def multiprocessors() -> int:
    """The number of multiprocessors of this process's device."""
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])
