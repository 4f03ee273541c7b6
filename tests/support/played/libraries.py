"""In place of libnccl and libcublasmp, at the boundary to ctypes: they take what the libraries take, in their order,
hold it against what the headers say, and multiply."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from threading import Barrier, Event, get_ident
from typing import Any

import numpy as np

from jobs.formats.elements import Array
from tests.support.played.cublas_xt import PlayedXt
from worker.check.elements import narrow, widen

MP_TYPES = {2: "float16", 14: "bfloat16", 0: "float32", 1: "float64"}
COMPUTED_IN = {"float16": 68, "bfloat16": 68, "float32": 68, "float64": 70}
SPLIT, SEQUENTIAL = 1, 5  # algorithms that are asked for; the others are refused for such parts, or take multicast
WORKSPACE, ENOUGH = {SPLIT: (1234, 7), SEQUENTIAL: (1000, 77)}, (1234, 77)  # bytes by algorithm, and enough for both
TOGETHER = ("cublasMpBufferRegister", "cublasMpMatmul", "cublasMpBufferDeregister")


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


@dataclass
class PlayedNccl:
    """A communicator is the number of its rank, from 1. `status`: of connecting; `refuses`: of allocating, by how many
    calls came before. `emptied`: threads whose GPU's pool has given back what it kept."""

    status: int = 0
    refuses: dict[int, int] = field(default_factory=dict)
    emptied: set[int] = field(default_factory=set)
    memory: dict[int, Any] = field(default_factory=dict)  # by address
    registered: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ncclGetErrorString: Any = lambda status: b"unhandled system error"
        self._calls = count()

    def ncclGetVersion(self, number: Any) -> int:
        hand_over(number, 22809)
        return 0

    def ncclCommInitAll(self, made: Any, count: int, devices: Any) -> int:
        assert list(devices) == list(range(count))
        for rank in range(count):
            made[rank] = rank + 1
        return self.status

    def ncclMemAlloc(self, reference: Any, size: ctypes.c_size_t) -> int:
        assert get_ident() in self.emptied, "CuPy's pool still has what it kept"
        if status := self.refuses.get(next(self._calls)):
            return status
        memory = ctypes.create_string_buffer(size.value)
        self.memory[ctypes.addressof(memory)] = memory
        hand_over(reference, ctypes.addressof(memory))
        return 0

    def ncclMemFree(self, at: ctypes.c_void_p) -> int:
        del self.memory[address(at)]
        assert address(at) not in self.registered, "it is still registered"
        return 0


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
class Matmul:
    """A descriptor of a product; attributes by number."""

    compute: int
    attributes: dict[int, int] = field(default_factory=dict)


@dataclass
class PlayedMp:
    """All ranks of one process. By function, statuses by rank: with which each refuses or fails. `cublasMpMatmul.done`:
    once the product is there."""

    ranks: int
    nccl: PlayedNccl
    fails: dict[str, dict[int, int]] = field(default_factory=dict)
    release: int = 1000
    objects: dict[int, Any] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)  # algorithms

    def __post_init__(self) -> None:
        self._barriers = {name: Barrier(self.ranks) for name in TOGETHER}
        self.xt = PlayedXt()  # that the same process finds
        self.is_released = Event()  # until then a product is not done
        self.is_released.set()
        self._asked: dict[int, Any] = {}
        self._made: dict[int, int] = {}  # handles by the threads that made them
        self._rank_of: dict[int, int] = {}  # by handle, and by grid
        self._numbers = count(100)

    def _keep(self, reference: Any, value: Any) -> int:
        number = next(self._numbers)
        self.objects[number] = value
        hand_over(reference, number)
        return 0

    def left(self) -> list[str]:
        """What a product should have given back."""
        kinds = [type(each).__name__ for each in list(self.objects.values()) if isinstance(each, Described | Matmul)]
        return sorted(kinds + ["memory"] * len(self.nccl.memory) + ["registered"] * len(self.nccl.registered))

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
        self._keep(grid, shape)
        self._rank_of[self._made[get_ident()]] = self._rank_of[grid._obj.value] = address(communicator) - 1
        return 0

    def cublasMpBufferRegister(self, grid: Any, at: Any, size: Any) -> int:
        """Refused before ranks wait for each other; what fails, fails while they do."""
        rank = self._on_grid(grid)
        assert ctypes.sizeof(self.nccl.memory[address(at)]) == size.value == ENOUGH[0]
        status = self.fails.get("cublasMpBufferRegister", {}).get(rank, 0)
        if status != 7:
            self._barriers["cublasMpBufferRegister"].wait()
        if not status:
            self.nccl.registered.add(address(at))
        return status

    def cublasMpBufferDeregister(self, grid: Any, at: Any) -> int:
        """By all ranks, which wait for each other only where one fails."""
        rank, fails = self._on_grid(grid), self.fails.get("cublasMpBufferDeregister", {})
        self.nccl.registered.remove(address(at))
        if fails:
            self._barriers["cublasMpBufferDeregister"].wait()
        return fails.get(rank, 0)

    def _on_grid(self, grid: Any) -> int:
        """Of the product, which is along rows."""
        assert self.objects[address(grid)] == (self.ranks, 1)
        return self._rank_of[address(grid)]

    def cublasMpMatrixDescriptorCreate(self, *arguments: Any) -> int:
        rows, columns, high, wide, first_row, first_column, pitch = integers(arguments[:7])
        data, grid, reference = arguments[7:]
        shape = self.objects[address(grid)]
        assert (first_row, first_column) == (0, 0) and pitch >= high
        assert high * shape[0] == rows and (wide * shape[1] == columns or shape[1] == 1)
        return self._keep(reference, Described(rows, columns, (high, wide), pitch, MP_TYPES[data], shape))

    def cublasMpMatrixDescriptorDestroy(self, description: Any) -> int:
        assert isinstance(self.objects.pop(address(description)), Described)
        return 0

    def cublasMpMatmulDescriptorCreate(self, reference: Any, compute: int) -> int:
        return self._keep(reference, Matmul(compute))

    def cublasMpMatmulDescriptorSetAttribute(self, operation: Any, attribute: int, value: Any, size: Any) -> int:
        assert isinstance(value._obj, ctypes.c_int) and isinstance(size, ctypes.c_size_t) and size.value == 4
        self.objects[address(operation)].attributes[attribute] = value._obj.value
        return 0

    def cublasMpMatmulDescriptorDestroy(self, operation: Any) -> int:
        assert isinstance(self.objects.pop(address(operation)), Matmul)
        return 0

    def cublasMpMatmul_bufferSize(self, *arguments: Any) -> int:
        rank, _, algorithm = self._read(arguments[:-2])
        for reference, size in zip(arguments[-2:], WORKSPACE[algorithm], strict=True):
            hand_over(reference, size)
        return self.fails.get("cublasMpMatmul_bufferSize", {}).get(rank, 0)

    def cublasMpMatmul(self, *arguments: Any) -> int:
        on_device, device_bytes, on_host, host_bytes = arguments[-4:]
        assert address(on_device) in self.nccl.memory and address(on_host)
        assert (device_bytes.value, host_bytes.value) == ENOUGH
        rank, asked, algorithm = self._read(arguments[:-4])
        if algorithm == SPLIT and address(on_device) not in self.nccl.registered:
            return 7
        if status := self.fails.get("cublasMpMatmul", {}).get(rank):
            return status  # the others wait
        self.used.add(algorithm)
        self._asked[rank] = asked
        self._barriers["cublasMpMatmul"].wait()
        self.is_released.wait()
        left, right = (self._whole(place) for place in (0, 1))
        self._barriers["cublasMpMatmul"].wait()
        description, at = asked[2]
        rows, columns, own = description.part(rank, at)
        product = left[rows] @ right[:, columns]
        is_short = description.dtype in ("float16", "bfloat16")
        own[...] = narrow(product.astype(np.float32), description.dtype) if is_short else product
        return self.fails.get("cublasMpMatmul.done", {}).get(rank, 0)

    def _whole(self, place: int) -> Array:
        """op(A) or op(B), gathered from all ranks."""
        description, _, transposed = self._asked[0][place]
        whole = np.zeros((description.rows, description.columns))
        for rank, asked in self._asked.items():
            rows, columns, part = asked[place][0].part(rank, asked[place][1])
            whole[rows, columns] = widen(part, description.dtype)
        return whole.T if transposed else whole

    def _read(self, arguments: Any) -> tuple[int, Any, int]:
        """What both functions have in common, held against the contract of the header: the rank, the three matrices,
        and the algorithm."""
        handle, operation, *rest = arguments
        assert address(handle) in self.objects
        matmul = self.objects[address(operation)]
        transposed_a, transposed_b, algorithm = (matmul.attributes[each] for each in (0, 1, 3))
        assert set(matmul.attributes) == {0, 1, 3} and algorithm in WORKSPACE
        m, n, k = integers(rest[:3])
        one, a, *first_a, of_a, b = rest[3:9]
        *first_b, of_b, zero, c = rest[9:14]
        *first_c, of_c, d = rest[14:18]
        *first_d, of_d = rest[18:]
        assert integers((*first_a, *first_b, *first_c, *first_d)) == [1] * 8
        assert (address(c), address(of_c)) == (address(d), address(of_d))
        left, right, out = (self.objects[address(each)] for each in (of_a, of_b, of_d))
        assert (one._obj.value, zero._obj.value) == (1, 0)
        assert isinstance(one._obj, ctypes.c_double if out.dtype == "float64" else ctypes.c_float)
        assert matmul.compute == COMPUTED_IN[out.dtype] and out.grid == (self.ranks, 1)
        of_left = (left.columns, left.rows) if transposed_a else (left.rows, left.columns)
        of_right = (right.columns, right.rows) if transposed_b else (right.rows, right.columns)
        assert (of_left, of_right, (out.rows, out.columns)) == ((m, k), (k, n), (m, n))
        blocks_a = left.block[::-1] if transposed_a else left.block
        blocks_b = right.block[::-1] if transposed_b else right.block
        assert blocks_a[1] == blocks_b[0] and blocks_a[0] == out.block[0] and blocks_b[1] == out.block[1]
        matrices = (
            (left, address(a), bool(transposed_a)),
            (right, address(b), bool(transposed_b)),
            (out, address(d)),
        )
        return self._rank_of[address(handle)], matrices, algorithm


def played(libraries: dict[str, Any]) -> Callable[..., Any]:
    """In place of `shared_object`."""
    return lambda *names: next((libraries[name] for name in names if name in libraries), None)
