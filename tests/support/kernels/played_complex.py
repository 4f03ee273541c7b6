"""Complex products on the device of `tests/support/played`: memory of this process, and numpy in place of kernels."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from worker.check.views.as_real import in_blocks, real_view


def lying(address: int, dtype: Any, shape: tuple[int, int, int], strides: tuple[int, int, int]) -> Any:
    """Memory of the device as an array; strides in elements."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    raw = (ctypes.c_uint8 * (extent * dtype.itemsize)).from_address(address)
    line = np.frombuffer(raw, dtype)
    return np.lib.stride_tricks.as_strided(line, shape, [stride * dtype.itemsize for stride in strides])


def rows_of(matrix: Any) -> Any:
    """A matrix on the device, without its padding."""
    items = _whole(matrix)[:, : matrix.layout.rows, : matrix.layout.columns]
    return items if matrix.layout.batch > 1 else items[0]


def has_clear_padding(matrix: Any) -> bool:
    """Whether what may take part in sums beside it is zero."""
    layout, whole = matrix.layout, _whole(matrix)
    below, beside = layout.cleared
    under, right = whole[:, layout.rows : layout.rows + below], whole[:, : layout.rows, layout.columns :][:, :, :beside]
    return not under.any() and not right.any()


def _whole(matrix: Any) -> Any:
    layout, memory = matrix.layout, matrix.memory.bytes
    begin = matrix.address - memory.ctypes.data
    whole = memory[begin : begin + layout.bytes].view(STORAGE_DTYPES[layout.dtype])
    return whole.reshape(layout.batch, layout.kept_rows, layout.pitch)


def arranged(name: str, part: str, arguments: Any) -> None:
    """As src/complex_layout.cu and src/complex_check.cu have it."""
    real, whole = np.dtype(part), np.dtype({"float32": "complex64", "float64": "complex128"}[part])
    source, made, rows, columns, *numbers = map(int, arguments)
    pitches, strides, batch, transposed = numbers[:2], numbers[2:4], numbers[4], bool(numbers[5])
    flags, unit = numbers[6:], 2
    blocks = name == "complex_blocks"
    if name == "complex_check":
        blocks, flags, unit = bool(flags[0]), flags[1:], 1
        rows, columns = rows // (2 if blocks else 1), columns // 2
    shape = (columns, rows) if transposed else (rows, columns)
    at = strides[0] * unit // 2, pitches[0] * unit // 2, 1
    given = lying(source, whole, (batch, *shape), at)
    given = given.swapaxes(1, 2) if transposed else given
    of_a, of_b = flags
    written = in_blocks(given, ((1, of_b), (-of_a * of_b, of_a))) if blocks else real_view(given)
    height, width = written.shape[1:]
    lying(made, real, (batch, height, width), (strides[1] * unit, pitches[1] * unit, 1))[:] = written


class SpoilingLibrary:
    """Multiplies complex matrices as BLAS does: each sum by 1 + 0i in the end. Its real products are right."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def tune(self, *_: Any) -> None:
        """Nothing is tried."""

    def has_multiplied(self, *_: Any) -> bool:
        return True

    def multiply(self, _name: str, problem: Problem, a: Any, b: Any, c: Any, _config: Any) -> None:
        self._calls.append(f"{problem.dtype} {problem.m}x{problem.n}x{problem.k}")
        rows = [rows_of(each) for each in (a, b, c)]
        with np.errstate(all="ignore"):
            sums = rows[0] @ rows[1]
            rows[2][:] = sums * (1 + 0j) if np.iscomplexobj(sums) else sums


class PlayedKernels:
    """In place of all that multiplies real matrices on a device."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def get(self, *_: Any) -> Any:
        return self

    def tune(self, *_: Any) -> None:
        """Nothing is tried."""

    def launch(self, a: Any, b: Any, c: Any) -> None:
        self._calls.append(f"real {a.layout.rows}x{b.layout.columns}x{a.layout.columns}")
        rows = [rows_of(each) for each in (a, b, c)]
        rows[2][:] = rows[0] @ rows[1]

    def multiply(self, _name: str, _problem: Problem, a: Any, b: Any, c: Any, _config: Any) -> None:
        self.launch(a, b, c)


class PlayedClock:
    """In place of `KernelClock`."""

    def kernel_ms(self, launch: Any, *, is_loaded: bool, meanwhile: Any, before: Any) -> float:
        before()
        launch()
        meanwhile()
        return 1.0


def by_library(compiler: Any, problem: Problem, matrices: Any, calls: list[str]) -> float:
    """By `cublas`, as the runner does it."""
    from worker.cuda.complex_products import ComplexProducts
    from worker.cuda.multiplier import Multiplier

    library: Any = SpoilingLibrary(calls)
    clocks: Any = SimpleNamespace(clock=PlayedClock())
    composed = ComplexProducts(compiler, library, library, lambda: ARCHITECTURES["sm_90"].traits)
    multiplier = Multiplier(compiler, library, library, composed, clocks)
    choice = Choice(BY_NAME["cublas"], {}, "It was asked for.")
    return multiplier.kernel_ms(
        problem, choice, matrices, epilogue=None, scales=None, before=lambda: None, meanwhile=lambda: None
    )


def find_not_finite(part: str, arguments: Any) -> None:
    """As src/complex_finite.cu has it."""
    address, word, rows, columns, pitch, stride, batch = map(int, arguments)
    parts = lying(address, np.dtype(part), (batch, rows, columns), (stride, pitch, 1))
    ctypes.c_uint32.from_address(word).value |= int(not np.isfinite(parts).all())


def multiply_complex(compiler: Any, problem: Problem, matrices: Any, calls: list[str]) -> None:
    """By `complex_as_real`; what the check would read is made too, and gives the same product."""
    from worker.cuda.complex.matrices import RealOperands
    from worker.cuda.complex_products import ComplexProducts

    played: Any = PlayedKernels(calls)
    products = ComplexProducts(compiler, played, played, lambda: ARCHITECTURES["sm_90"].traits)
    kernel = BY_NAME["complex_as_real"]
    assert isinstance(kernel, ComposedKernel)
    products.launcher(Choice(kernel, {}, "It was asked for."), problem, matrices)()
    own = RealOperands(compiler, problem, *matrices[:2], for_check=True)
    own.arrange()
    expected = real_view(rows_of(matrices[2]).copy())
    np.testing.assert_array_equal(rows_of(own.a) @ rows_of(own.b), expected)
