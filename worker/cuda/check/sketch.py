"""The check's sketch of a product on the device: random projections, and what bounds their rounding.

docs/decisions/0017 has the mathematics, `worker/cuda/src/sketch.cu` the kernels. Everything is launched on the current
stream, with one allocation and one copy back, which is waited for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTypeName
from worker.check.sketch import Sketch
from worker.cuda.check.matrix import MatrixOnDevice
from worker.cuda.check.sketch_plan import THREADS, Geometry, plan
from worker.cuda.compile import Compiler
from worker.cuda.results import DeviceResults, as_parameter, float_word
from worker.cuda.sources import sketch_program

WORD = (1 << 64) - 1
Matrices = tuple[MatrixOnDevice, MatrixOnDevice, MatrixOnDevice]  # A, B and C


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
    """`seed` has 128 random bits. `common`: columns of B are scaled alike, by the largest; not for float64. `excluded`
    is uint8 or bool, (batch or 1, n). m, n and k are at least 1."""
    found = _sketched(compiler, matrices, width, seed, floor2, excluded, common=common)
    peaks = found["row_peaks"]
    exponents = np.frexp(peaks.view(np.float64))[1] if peaks.size else np.zeros((1, 1), np.int32)
    flags = {name: found[name].view(np.bool_) for name in ("bad_rows", "bad_columns", "odd_columns")}
    unit = np.sqrt(found["unit"])
    return Sketch(found["difference"], found["q"], found["r"], unit, **flags, exponents=exponents)


def integer_sketch(compiler: Compiler, matrices: Matrices, *, seed: int, wraps: bool) -> Array:
    """bool (batch, m): rows in which some projection differs. `wraps`: sums may pass 32 bits, so projections are
    compared modulo 2³². m, n and k are at least 1."""
    found = _sketched(compiler, matrices, matrices[2].shape[2], seed, 0.0, None, wraps=wraps)
    return found["bad_rows"].view(np.bool_)


def _sketched(
    compiler: Compiler,
    matrices: Matrices,
    width: int,
    seed: int,
    floor2: float,
    excluded: Array | None,
    *,
    wraps: bool = False,
    common: bool = False,
) -> dict[str, Array]:
    """The results by their names."""
    a, b, c = matrices
    transposed = (a.transposed, b.transposed)
    items_x = max(b.shape[0], 1 if excluded is None else len(excluded))
    (batch, m, n), k = c.shape, a.shape[2]
    items = (batch, a.shape[0], b.shape[0], items_x)
    planned = plan(Geometry(a.dtype, transposed, m, n, k, *items, min(width, n), multiprocessors(), common))
    memory = cupy.cuda.alloc(planned.bytes)
    memory.memset_async(0, planned.zeroed_bytes)
    mask = None if excluded is None else cupy.asarray(np.ascontiguousarray(excluded, dtype=np.uint8))
    pointers = [each.address for each in matrices] + [0 if mask is None else mask.data.ptr]
    pointers += [memory.ptr + offset for offset in planned.offsets]
    sizes = [m, n, k, *(each.pitch for each in matrices), *(each.stride for each in matrices)]
    numbers = [*planned.numbers, int(wraps), seed & WORD, seed >> 64 & WORD, float_word(floor2)]
    parameter = as_parameter(pointers + sizes + numbers)
    functions = _functions(compiler, a.dtype, transposed)
    for step in planned.steps:
        functions[step.function]((step.blocks, 1, step.items), (THREADS, 1, 1), (parameter,))
    data = DeviceResults(memory, *planned.results).wait()
    return {
        view.name: np.frombuffer(data, view.dtype, view.size, view.begin).reshape(view.shape) for view in planned.views
    }


class _Functions(dict[str, Any]):
    """Loaded when first asked for: a program has those of its element type alone."""

    def __init__(self, compiler: Compiler, dtype: DTypeName, transposed: tuple[bool, bool]) -> None:
        self._compiler, self._program = compiler, sketch_program(dtype, transposed)

    def __missing__(self, name: str) -> Any:
        function = self[name] = self._compiler.function(self._program, name)
        return function


@lru_cache(maxsize=64)
def _functions(compiler: Compiler, dtype: DTypeName, transposed: tuple[bool, bool]) -> _Functions:
    return _Functions(compiler, dtype, transposed)


@lru_cache(maxsize=1)
def multiprocessors() -> int:
    """Of the device that this process has."""
    return int(cupy.cuda.Device().attributes["MultiProcessorCount"])
