"""In place of libnccl, libcublasmp and libcublas, at the boundary to ctypes: they take what the libraries take, in
their order, hold it against what the headers say, and multiply."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Barrier, Event, get_ident
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from worker.check.elements import narrow, widen

MP_TYPES = {2: "float16", 14: "bfloat16", 0: "float32", 1: "float64"}
COMPUTED_IN = {"float16": 68, "bfloat16": 68, "float32": 68, "float64": 70}
WORKSPACE, ON_HOST = 1234, 77  # bytes


def integers(arguments: Any) -> list[int]:
    """Of 64 bits, as the header says: not of ctypes' own choosing."""
    assert all(isinstance(each, ctypes.c_int64) for each in arguments), arguments
    return [each.value for each in arguments]


def address(pointer: ctypes.c_void_p) -> int:
    assert isinstance(pointer, ctypes.c_void_p), pointer
    return pointer.value or 0


def hand_over(reference: Any, value: int) -> None:
    """Through what `byref` makes of a variable."""
    reference._obj.value = value


class PlayedNccl:
    """A communicator is the number of its rank, from 1."""

    def __init__(self, status: int = 0) -> None:
        self.ncclGetErrorString: Any = lambda status: b"unhandled system error"
        self._status = status

    def ncclGetVersion(self, number: Any) -> int:
        hand_over(number, 22809)
        return 0

    def ncclCommInitAll(self, made: Any, count: int, devices: Any) -> int:
        assert list(devices) == list(range(count))
        for rank in range(count):
            made[rank] = rank + 1
        return self._status


@dataclass
class Described:
    rows: int
    columns: int
    block: tuple[int, int]
    pitch: int
    dtype: Any
    grid: tuple[int, int]

    def part(self, rank: int, at: int) -> tuple[slice, slice, Array]:
        """Where a rank's part is in the whole, and it itself, column-major."""
        row, column = (rank, 0) if self.grid[0] > 1 else (0, rank)
        height = self.rows // self.grid[0]
        width = self.columns // self.grid[1]
        item = np.dtype({"bfloat16": np.uint16}.get(self.dtype, self.dtype))
        raw = (ctypes.c_uint8 * (self.pitch * width * item.itemsize)).from_address(at)
        whole = np.frombuffer(raw, item).reshape(width, self.pitch)[:, :height].T
        return slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width), whole


@dataclass
class PlayedMp:
    """All ranks of one process. `fails`: status of the product, by rank; `refuses`: of asking for its workspace."""

    ranks: int
    fails: dict[int, int] = field(default_factory=dict)
    refuses: dict[int, int] = field(default_factory=dict)
    release: int = 1000
    objects: dict[int, Any] = field(default_factory=dict)
    ended: int = 0

    def __post_init__(self) -> None:
        self._barrier = Barrier(self.ranks)
        self.is_released = Event()  # until then a product is not done
        self.is_released.set()
        self._asked: dict[int, Any] = {}
        self._made: dict[int, int] = {}  # handles by the threads that made them
        self._rank_of: dict[int, int] = {}  # by handle

    def _keep(self, reference: Any, value: Any) -> int:
        number = 100 + len(self.objects)
        self.objects[number] = value
        hand_over(reference, number)
        return 0

    def cublasMpGetVersion(self, number: Any) -> int:
        hand_over(number, self.release)
        return 0

    def cublasMpCreate(self, handle: Any, stream: ctypes.c_void_p) -> int:
        address(stream)
        self._keep(handle, "handle")
        self._made[get_ident()] = handle._obj.value
        return 0

    def cublasMpGridCreate(self, rows: Any, columns: Any, layout: int, communicator: Any, grid: Any) -> int:
        shape = tuple(integers((rows, columns)))
        assert layout == (0 if shape[0] > 1 or (self.ranks == 1 and layout == 0) else 1)
        assert shape[0] * shape[1] == self.ranks
        self._rank_of[self._made[get_ident()]] = address(communicator) - 1
        return self._keep(grid, shape)

    def cublasMpMatrixDescriptorCreate(self, *arguments: Any) -> int:
        rows, columns, high, wide, first_row, first_column, pitch = integers(arguments[:7])
        data, grid, reference = arguments[7:]
        shape = self.objects[address(grid)]
        assert (first_row, first_column) == (0, 0) and pitch >= high
        assert high * shape[0] == rows and (wide * shape[1] == columns or shape[1] == 1)
        return self._keep(reference, Described(rows, columns, (high, wide), pitch, MP_TYPES[data], shape))

    def cublasMpMatrixDescriptorDestroy(self, description: Any) -> int:
        self.ended += isinstance(self.objects.pop(address(description)), Described)
        return 0

    def cublasMpGemm_bufferSize(self, *arguments: Any) -> int:
        rank = self._read(arguments[:-2])[0]
        hand_over(arguments[-2], WORKSPACE)
        hand_over(arguments[-1], ON_HOST)
        return self.refuses.get(rank, 0)

    def cublasMpGemm(self, *arguments: Any) -> int:
        on_device, device_bytes, on_host, host_bytes = arguments[-4:]
        assert address(on_device) and address(on_host)
        assert (device_bytes.value, host_bytes.value) == (WORKSPACE, ON_HOST)
        rank, asked = self._read(arguments[:-4])
        if status := self.fails.get(rank):
            return status  # the others wait
        self._asked[rank] = asked
        self._barrier.wait()
        self.is_released.wait()
        left, right = (self._whole(place) for place in (0, 1))
        self._barrier.wait()
        description, at = asked[2]
        rows, columns, own = description.part(rank, at)
        product = left[rows] @ right[:, columns]
        is_short = description.dtype in ("float16", "bfloat16")
        own[...] = narrow(product.astype(np.float32), description.dtype) if is_short else product
        return 0

    def _whole(self, place: int) -> Array:
        """op(A) or op(B), gathered from all ranks."""
        description, _, transposed = self._asked[0][place]
        whole = np.zeros((description.rows, description.columns))
        for rank, asked in self._asked.items():
            rows, columns, part = asked[place][0].part(rank, asked[place][1])
            whole[rows, columns] = widen(part, description.dtype)
        return whole.T if transposed else whole

    def _read(self, arguments: Any) -> tuple[int, Any]:
        """What both functions have in common, held against the contract of the header."""
        handle, transposed_a, transposed_b, *rest = arguments
        assert address(handle) in self.objects
        m, n, k = integers(rest[:3])
        one, a, *first_a, of_a, b = rest[3:9]
        *first_b, of_b, zero, c = rest[9:14]
        *first_c, of_c, compute = rest[14:]
        assert [*integers(first_a), *integers(first_b), *integers(first_c)] == [1] * 6
        left, right, out = (self.objects[address(each)] for each in (of_a, of_b, of_c))
        assert (one._obj.value, zero._obj.value) == (1, 0)
        assert isinstance(one._obj, ctypes.c_double if out.dtype == "float64" else ctypes.c_float)
        assert compute == COMPUTED_IN[out.dtype]
        of_left = (left.columns, left.rows) if transposed_a else (left.rows, left.columns)
        of_right = (right.columns, right.rows) if transposed_b else (right.rows, right.columns)
        assert (of_left, of_right, (out.rows, out.columns)) == ((m, k), (k, n), (m, n))
        blocks_a = left.block[::-1] if transposed_a else left.block
        blocks_b = right.block[::-1] if transposed_b else right.block
        assert blocks_a[1] == blocks_b[0] and blocks_a[0] == out.block[0] and blocks_b[1] == out.block[1]
        return self._rank_of[address(handle)], (
            (left, address(a), bool(transposed_a)),
            (right, address(b), bool(transposed_b)),
            (out, address(c)),
        )


class PlayedXt:
    """cuBLASXt, which computes as BLAS would: column by column."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.status = 0

    def cublasXtCreate(self, handle: Any) -> int:
        handle._obj.value = 77
        return self.status

    def cublasXtDeviceSelect(self, handle: Any, count: int, devices: Any) -> int:
        self.said.append((handle.value, list(devices[:count])))
        return 0

    def cublasXtSetBlockDim(self, handle: Any, block: int) -> int:
        self.said.append(block)
        return 0

    def cublasXtDestroy(self, handle: Any) -> int:
        self.said.append("end")
        return 0

    def cublasXtSgemm(self, *arguments: Any) -> int:
        return self._gemm(np.float32, *arguments)

    def cublasXtDgemm(self, *arguments: Any) -> int:
        return self._gemm(np.float64, *arguments)

    def _gemm(self, dtype: Any, handle: Any, of_a: int, of_b: int, *more: Any) -> int:
        m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = more
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0) and {of_a, of_b} <= {0, 1}
        first = columns(a, lda, k, m, dtype).T if of_a else columns(a, lda, m, k, dtype)
        second = columns(b, ldb, n, k, dtype).T if of_b else columns(b, ldb, k, n, dtype)
        columns(c, ldc, m, n, dtype)[:] = first @ second
        return self.status


def columns(address: Any, leading: Any, rows: Any, count: Any, dtype: Any) -> Array:
    """A matrix as BLAS takes it."""
    elements = leading.value * count.value
    raw = (ctypes.c_uint8 * (elements * np.dtype(dtype).itemsize)).from_address(address.value)
    whole: Array = np.frombuffer(raw, dtype).reshape(count.value, leading.value).T[: rows.value]
    return whole


def played(libraries: dict[str, Any]) -> Callable[..., Any]:
    """In place of `shared_object`."""
    return lambda *names: next((libraries[name] for name in names if name in libraries), None)
