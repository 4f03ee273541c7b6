"""Rows and columns of a product computed again on the device, every element (`worker/cuda/src/recheck.cu`).

The rule is the host's (`worker/check/elementwise.py`). What the device finds to be beyond it, or cannot decide, the
host computes again, element by element and from operands in its own memory: a product is wrong only if the host says
so.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import cupy
import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES
from worker.check.elementwise import Operands, worst_of, worst_of_element
from worker.check.rounding import Rounding
from worker.check.views.scaled import ScaledMatrix
from worker.cuda.check.epilogue import CheckedEpilogue
from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
from worker.cuda.check.recheck_plan import (
    CAPACITY,
    OPEN_WORDS,
    RESULT_WORDS,
    THREADS,
    Element,
    Epilogue,
    Lines,
    Operand,
    RecheckGeometry,
    block_count,
    launches,
    numbers,
)
from worker.cuda.memory import DeviceMatrix
from worker.cuda.results import DeviceResults, as_parameter
from worker.cuda.sources import recheck_program

WORD_BYTES = 8


class Cores(Protocol):
    """As `worker.cuda.gpu.cores.CoresRequest`."""

    def borrowed(self) -> AbstractContextManager[None]: ...


class _Found(NamedTuple):
    """Of one launch."""

    worst: float  # the largest ratio of an element to its bound, among those that are decided
    left: int  # how many are not
    open: Array  # uint64 (at most CAPACITY, 3) of these, the farthest first: item, listed line, line that it crosses


class Recheck:
    """Of a product of floats whose matrices lie on the device as they lay when it was computed. `operands` are the same
    in this process's memory. `cores` are asked for at each launch, if they are others', and given up behind it."""

    def __init__(
        self,
        matrices: CheckedMatrices,
        operands: Operands,
        rounding: Rounding,
        epilogue: CheckedEpilogue | None = None,
        cores: Cores | None = None,
    ) -> None:
        """`rounding` is one that `can_recheck` allows."""
        a, b, c = self._matrices = matrices
        self._operands, self._rounding, self._cores = operands, rounding, cores
        # Scaled operands are rounded once more on the device, so what comes near its bound is the host's to judge.
        self._decides = not any(isinstance(each, ScaledMatrix) for each in (operands.a, operands.b))
        output = None if c.dtype == DTYPES[a.dtype].product else c.dtype
        self._function = matrices.compiler.function(recheck_program(a.dtype, output), "recheck")
        addends = (None, None) if epilogue is None else (epilogue.c, epilogue.bias)
        layout = Element(c.pitch, 1, c.stride)
        both = _operand(a, transposed=a.transposed), _operand(b, transposed=not b.transposed)
        self._geometry = RecheckGeometry(both, layout, None if epilogue is None else _epilogue(epilogue))
        # Where nothing is added, nothing is read.
        self._of_elements = [c.address, *(c.address if each is None else each.address for each in addends)]

    def worst(self, rows: Array, columns: Array) -> float:
        """As `worker.check.elementwise.worst_of`; lines are computed in parts, and others' products between them."""
        worst = 0.0
        for mask, of_columns in ((rows, False), (columns, True)):
            crossed = self._matrices[2].shape[1 if of_columns else 2]
            for lines in launches(mask, crossed, self._rounding.k):
                found = self._computed(lines, crossed, of_columns=of_columns)
                worst = max(worst, found.worst, self._settled(found, lines, of_columns=of_columns))
                if worst > 1.0:
                    return worst
        return worst

    def _computed(self, lines: Lines, crossed: int, *, of_columns: bool) -> _Found:
        a, b, _ = self._matrices
        listed, crossing = (b, a) if of_columns else (a, b)
        size = RESULT_WORDS * WORD_BYTES
        with nullcontext() if self._cores is None else self._cores.borrowed():
            results = cupy.cuda.alloc(size)
            results.memset_async(0, 2 * WORD_BYTES)
            given = [cupy.asarray(each) for each in lines]
            addresses = [listed.address, crossing.address, *self._of_elements, *(each.data.ptr for each in given)]
            addresses += [results.ptr + place * WORD_BYTES for place in range(3)]
            own = numbers(self._rounding, self._geometry, crossed, of_columns=of_columns, decides=self._decides)
            parameter = as_parameter(np.concatenate([np.array(addresses, np.uint64), own]))
            self._function((block_count(lines, crossed), 1, 1), (THREADS, 1, 1), (parameter,))
            copied = DeviceResults(self._matrices.compiler, results, 0, size).start()
        return _found(copied.wait().view(np.uint64))

    def _settled(self, found: _Found, lines: Lines, *, of_columns: bool) -> float:
        """What the host says about elements that are left. If they are too many and those listed are right, it computes
        all of these lines."""
        worst = 0.0
        for item, line, other in found.open.tolist():
            row, column = (other, line) if of_columns else (line, other)
            worst = max(worst, worst_of_element(self._operands, item, row, column, self._rounding))
            if worst > 1.0:
                return worst
        if found.left > len(found.open):
            batch, m, n = self._matrices[2].shape
            masks = np.zeros((batch, m), np.bool_), np.zeros((batch, n), np.bool_)
            items = np.repeat(lines.tiles[:, 0], lines.tiles[:, 2])
            masks[of_columns][items, lines.lines] = True
            worst = max(worst, worst_of(self._operands, *masks, self._rounding))
        return worst


def _found(words: Array) -> _Found:
    left = int(words[1])
    entries = words[2:].reshape(CAPACITY, OPEN_WORDS)[: min(left, CAPACITY)]
    farthest = np.argsort(-entries[:, -1].view(np.float64), kind="stable")
    return _Found(float(words[:1].view(np.float64)[0]), left, entries[farthest, :-1])


def _operand(matrix: MatrixOnDevice, *, transposed: bool) -> Operand:
    """`transposed`: whether the terms of a line are not neighbours."""
    return Operand(not transposed, matrix.pitch, matrix.stride)


def _epilogue(of: CheckedEpilogue) -> Epilogue:
    bias = None if of.bias is None else Element(*of.bias_steps, 0)
    return Epilogue(of.alpha, of.beta, _added(of.c), bias)


def _added(matrix: DeviceMatrix | None) -> Element | None:
    return None if matrix is None else Element(matrix.layout.pitch, 1, matrix.layout.stride)
