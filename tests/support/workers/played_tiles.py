"""Products in tiles on GPUs that are not there: `python -m tests.support.workers.played_tiles` reads cases as JSON
lines, and prints for each what came of it.

CuPy is replaced, as in `played_cuda`. Panels, their order, what is read once more, and what is compared are real.
"""

from __future__ import annotations

import ctypes
import json
import sys
from threading import Event
from typing import Any, cast
from unittest.mock import MagicMock

import numpy as np

from jobs.errors import MatmulError, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of, part_count, part_digests
from jobs.models import Verification
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.plan import TilePlan, spans
from tests.support.kernels.played_complex import PlayedKernels, lying
from tests.support.played import driver as played_driver
from tests.support.stores import numbers
from worker.check.fingerprint import BITS, fingerprint_of_items
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue
from worker.device.tiles import TiledTask, TileRecord

SEED = 0x1234567
ALPHA, BETA = 2.0, -3.0
ARGUMENTS_OF_EPILOGUE = 17
COMPLEX = "complex_as_real"
PLAYED: dict[str, Any] = {"name": "played", "accuracy": {}}
LIBRARY_S = 0.25
FEW_ZEROS = 1 << 10
STUCK_S = 0.5  # beside 20 times what a tile should take


class DeviceError(Exception):
    """Of the driver; an address that is not the process's."""

    status = 700


class Zeros:
    """Words on the device."""

    def __init__(self, count: int, dtype: Any) -> None:
        self._words = np.zeros(count, dtype)
        self.nbytes = self._words.nbytes
        self.data = played_driver.Memory(0)
        self.data.bytes, self.data.ptr = self._words, self._words.ctypes.data

    def get(self) -> Array:
        return self._words.copy()


class Compiler(played_driver.Compiler):
    def function(self, program: Any, name: str) -> Any:
        if name != "fingerprint":
            function = super().function(program, name)
            return played_driver.Function(lambda arguments: self._faulty(function, arguments))
        itemsize = int(program.options[-1].partition("=")[2])
        return played_driver.Function(lambda arguments: self._fingerprint(BITS[itemsize], arguments))

    def _faulty(self, function: Any, arguments: Any) -> None:
        function(None, None, arguments)
        for number, fault in enumerate(("p", "c", "d")):
            if len(arguments) == ARGUMENTS_OF_EPILOGUE and played_driver.faults.pop(fault, False):
                ctypes.c_uint8.from_address(int(arguments[number])).value ^= 1

    def _fingerprint(self, dtype: Any, arguments: Any) -> None:
        address, pitch, stride, rows, columns, items, rows_of_item, row, column, seed, total = map(int, arguments)
        part = lying(address, np.dtype(dtype), (items, rows, columns), (stride, pitch, 1))
        value = fingerprint_of_items(part, seed, item=0, row=row, column=column, rows=rows_of_item)
        word = ctypes.c_uint64.from_address(total)
        word.value = (word.value + value) & (1 << 64) - 1


class Multiplier:
    """In place of prepared kernels, and of cuBLAS."""

    def multiply(self, _: str, problem: Problem, a: Any, b: Any, c: Any, _config: Any) -> None:
        if played_driver.faults.pop("stuck", False):
            Event().wait()
        if played_driver.faults.pop("device", False):
            raise DeviceError("cudaErrorIllegalAddress: told by a test")
        arrays = [self._array(matrix) for matrix in (a, b, c)]
        for matrix in (a, b):
            self._check_padding(matrix)
        made = multiply(problem, *(each if each.shape[0] > 1 else each[0] for each in arrays[:2]))
        arrays[2][...] = made.reshape(arrays[2].shape)
        if played_driver.faults.pop("panel", False):
            arrays[0][0, 0, 0] += 1  # it was right when it came, and is not when its fingerprint is taken

    def _check_padding(self, matrix: Any) -> None:
        """It takes part in sums."""
        rows, columns = matrix.layout.rows, matrix.layout.columns
        below, beside = matrix.layout.cleared
        with_padding = self._array(matrix, below, beside)
        assert not with_padding[:, rows:].any()
        assert not with_padding[:, :, columns:].any()

    def _array(self, matrix: Any, below: int = 0, beside: int = 0) -> Any:
        layout = matrix.layout
        shape = layout.batch, layout.rows + below, layout.columns + beside
        strides = (layout.kept_rows * layout.pitch, layout.pitch, 1)
        return lying(matrix.address, STORAGE_DTYPES[layout.dtype], shape, strides)


def peer_copy(to: int, _: int, source: int, __: int, size: int, ___: int) -> None:
    """Between two devices."""
    ctypes.memmove(to, source, size)


def plan_of(case: dict[str, Any], problem: Problem) -> TilePlan:
    items, rows, columns = case["parts"]
    cut = spans(problem.batch, items), spans(problem.m, rows), spans(problem.n, columns)
    return TilePlan(problem, case.get("outer", "a"), case.get("devices", 1), *cut)


def outcome(case: dict[str, Any]) -> str:
    import cupy

    from worker.cuda.complex_products import ComplexProducts
    from worker.cuda.pitch import stored_shapes
    from worker.cuda.tiles.gpus import Gpu
    from worker.cuda.tiles.product import CudaTiledProduct
    from worker.cuda.tiles.tiler import Tiler

    runtime: Any = cupy.cuda.runtime
    runtime.bytes_up = 0
    problem = Problem(**case["problem"])
    a, b = (numbers(shape, problem.dtype, seed) for seed, shape in enumerate(stored_shapes(problem)))
    out = np.zeros((problem.batch, problem.m, problem.n), STORAGE_DTYPES[problem.product_dtype])
    plan = plan_of(case, problem)
    kernel: Any = BY_NAME[COMPLEX] if DTYPES[problem.dtype].is_complex else type("Kernel", (), PLAYED)()
    kernel = BY_NAME["cublas_xt"] if "library" in case else kernel
    choice = cast(Any, type("Choice", (), {"kernel": kernel, "config": {}}))
    wrong = int("sent" in case)
    sent_a, sent_b = HostOperand(a, digest=digest_of(a) ^ wrong), HostOperand(b, digest=digest_of(b))
    epilogue = _epilogue(case, problem)
    task = TiledTask(problem, choice, plan, sent_a, sent_b, out, None, SEED, epilogue=epilogue)
    kernels: Any = PlayedKernels(played_driver.calls)
    composed = ComplexProducts(cast(Any, Compiler()), kernels, kernels, lambda: ARCHITECTURES["sm_90"].traits)
    played = cast(tuple[Any, Any, Any], (Compiler(), None, Multiplier()))
    gpus = [Gpu(index, *played, composed) for index in range(plan.devices)]

    def by_library() -> float:
        out[...] = multiply(problem, a, b).reshape(out.shape)
        return LIBRARY_S

    first = by_library if "library" in case else None
    tile_s = 0.0 if "stuck" in case.get("faults", ()) else 1.0
    product = CudaTiledProduct(task, gpus, tile_s, block_parts=3, places=2, multiply=first)
    done = _earlier(case, a, b, out, plan)
    records = dict(done)
    with Tiler._locked(cast(Any, None), out, None):
        records |= _computed(product, done)
    if "faults" not in case:
        whole = multiply(problem, a, b)
        whole = whole if epilogue is None else add_epilogue(problem, epilogue, whole)
        np.testing.assert_array_equal(out, whole.reshape(out.shape))
    if "product" in case:
        out[-1, -1, -1] += 1
    _compare_ends(product, records, out, by_library=first is not None)
    if "counts" in case:
        expected = a.nbytes + int(case.get("of_b", 1) * b.nbytes) + out.nbytes
        return "all bytes once" if runtime.bytes_up == expected else f"{runtime.bytes_up} bytes, not {expected}"
    return f"{len(records) - len(done)} tiles"


def _computed(product: Any, done: dict[int, TileRecord]) -> dict[int, TileRecord]:
    """All tiles but those that are done."""
    records = {}
    for each in product.tiles(done):
        if each.is_wrong:
            raise VerificationFailed
        records[each.record.tile] = each.record
    return records


def _check_calls(case: dict[str, Any]) -> None:
    """Nothing that panels wait for is a kernel."""
    assert "padded" not in case or not played_driver.memsets, "it waits for the tile's kernel"


def _compare_ends(product: Any, records: dict[int, TileRecord], out: Array, *, by_library: bool) -> None:
    """Digests of the product, and how long it took by its own account."""
    parts = product.finished(records)
    for lane in product._lanes.values():
        assert lane._reading._copying is not lane._up, "panels would wait for digests of blocks"
    assert by_library or product.flops_per_s is None, "a short product says nothing of a long one"
    assert parts == part_digests(memoryview(out.tobytes()), part_count(out.nbytes))
    assert product.measured.kernel_ms == (LIBRARY_S * 1e3 if by_library else 0.0)
    assert not by_library or not any(record.kernel_ms for record in records.values())


def _epilogue(case: dict[str, Any], problem: Problem) -> Epilogue | None:
    """By `c`: with one C for all items, with one for each, or with none."""
    if "c" not in case:
        return None
    if case["c"] == "none":
        return Epilogue(ALPHA, 0.0, None)
    shape = problem.product_shape if case["c"] == "each" else problem.product_shape[-2:]
    c = numbers(shape, problem.product_dtype, 2)
    return Epilogue(ALPHA, BETA, HostOperand(c, digest=digest_of(c) ^ int("sent_c" in case)))


def _earlier(case: dict[str, Any], a: Array, b: Array, out: Array, plan: TilePlan) -> dict[int, TileRecord]:
    """Tiles of an attempt before this one."""
    records = {}
    for tile in list(plan.tiles())[: case.get("found", 0)]:
        rows, columns = slice(tile.rows.start, tile.rows.stop), slice(tile.columns.start, tile.columns.stop)
        out[0, rows, columns] = multiply(tile.problem(plan.problem), a[rows], b[:, columns])
        parts = (
            (out[:, rows, columns], tile.rows.start, tile.columns.start),
            (a[np.newaxis, rows], tile.rows.start, 0),
            (b[np.newaxis, :, columns], 0, tile.columns.start),
        )
        c_a_b = [
            fingerprint_of_items(part, SEED, item=0, row=row, column=column, rows=0) for part, row, column in parts
        ]
        if "stale" in case:
            c_a_b[1] ^= 1
        names = dict(zip(("fingerprint", "a", "b"), c_a_b, strict=True))
        records[tile.number] = TileRecord(tile=tile.number, residual=0.0, kernel_ms=1.0, **names)
    return records


def checked(computing: Any, launched: Any, sketched: Any) -> Verification:
    """Passed. What the check of a complex tile would read on the device is what it would read on the host."""
    from worker.cuda.tiles.checkable_tile import checkable

    if sketched is not None:
        sketched()
    problem, (a, b, *_) = launched.problem, launched.panels
    memories = computing._operands["a"], computing._operands["b"]
    if DTYPES[problem.dtype].is_complex:
        product = checkable(computing._gpu.compiler, problem, (a, b), memories, launched.product)
        for on_device, on_host in zip(product._matrices, product._host, strict=False):
            (_, rows, columns), part = on_host.shape, np.dtype(STORAGE_DTYPES[DTYPES[problem.dtype].real])
            given = lying(on_device.address, part, (1, rows, columns), (0, on_device.pitch, 1))
            expected = on_host.elements(0, np.arange(rows)[:, np.newaxis], np.arange(columns))
            np.testing.assert_array_equal(given[0], expected)
    return Verification(method="freivalds", residual=0.0, threshold=1.0, passed=True)


def main() -> None:
    runtime = played_driver.install()
    from worker.cuda.tiles import padding, product
    from worker.cuda.tiles.computing import Computing

    setattr(product, "STUCK_S", STUCK_S)  # noqa: B010
    setattr(padding, "ZEROS_BYTES", FEW_ZEROS)  # noqa: B010  # so that they are copied many times
    setattr(Computing, "_checked", checked)  # noqa: B010  # what A·B is checked by has tests of its own
    cupy = sys.modules["cupy"]
    setattr(cupy.cuda, "Stream", lambda **_: MagicMock())  # noqa: B010  # the double's are one and the same
    setattr(cupy, "zeros", Zeros)  # noqa: B010  # of the double
    setattr(cupy.cuda.runtime, "CUDARuntimeError", DeviceError)  # noqa: B010
    setattr(cupy.cuda.runtime, "memcpyPeerAsync", peer_copy)  # noqa: B010
    setattr(cupy.cuda.runtime, "deviceCanAccessPeer", lambda *_: 0)  # noqa: B010
    setattr(cupy.cuda.driver, "CUDADriverError", DeviceError)  # noqa: B010
    setattr(sys.modules["cupy_backends.cuda.libs"].cublas, "CUBLASError", DeviceError)  # noqa: B010
    for line in sys.stdin:
        case = json.loads(line)
        played_driver.faults.update(dict.fromkeys(case.get("faults", ()), True))
        try:
            told = outcome(case)
            _check_calls(case)
        except MatmulError as error:
            told = type(error).__name__
        assert bool(runtime.registered) == (told == "DeviceFault"), "who unregisters waits for the device"
        runtime.registered.clear()
        played_driver.faults.clear()
        played_driver.memsets.clear()
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
