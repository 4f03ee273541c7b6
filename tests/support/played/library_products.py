"""Products by cuBLASMp on GPUs that are not there, by a library that is not there either:
`python -m tests.support.played.library_products` reads cases as JSON lines, and prints for each what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from threading import Barrier, BrokenBarrierError, Condition, get_ident
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np

from jobs.errors import DeviceFault, MatmulError, OutOfDeviceMemory, WrongState
from jobs.formats.elements import STORAGE_DTYPES
from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from tests.support.played import driver as played_driver
from tests.support.played.cublas_xt import PlayedXt
from tests.support.played.libraries import SEQUENTIAL, SPLIT, PlayedMp, PlayedNccl, played
from tests.support.stores import numbers
from worker.cpu.blas import multiply
from worker.cuda.pitch import stored_shapes

ALGORITHMS = {SPLIT: "split", SEQUENTIAL: "in sequence"}


class DeviceError(Exception):
    """No one raises it."""


def outcome(case: dict[str, Any]) -> str:
    """How the product came about, twice; of what failed, the error, and how it comes about afterwards or, where the
    process ends, how many workspaces are kept until then."""
    from worker.cuda.from_host import copies, mp_gang
    from worker.cuda.from_host import libraries as from_host

    library, problem = played_libraries(case), Problem(**case["problem"])
    a, b = (numbers(shape, problem.dtype, seed) for seed, shape in enumerate(stored_shapes(problem)))
    c = np.full((problem.batch, problem.m, problem.n), 77, STORAGE_DTYPES[problem.product_dtype])
    kernel = BY_NAME[case["kernel"]] if "kernel" in case else CUBLASMP
    choice = Choice(kernel, kernel.resolve_config(), "")
    from_host.STUCK_S = case.get("stuck_s", 60.0)
    setattr(mp_gang, "start_copy", failing_once(copies.start_copy, case.get("copy_fails")))  # noqa: B010
    multiplying, others = from_host.HostLibraries(range(case.get("ranks", 2))), set(enumerate_threads())
    if "late" in case:
        multiplying._gang._barrier = LateBarrier(2)

    def check_cancelled() -> None:
        if case.pop("cancelled", None):
            library.is_released.set()
            raise WrongState

    def product() -> str:
        c[...] = 77
        multiplying.multiply(choice, problem, a, b, c, check_cancelled, 0.0)
        np.testing.assert_array_equal(c, multiply(problem, a, b).reshape(c.shape))
        assert not library.left(), library.left()
        return " and ".join(sorted(ALGORITHMS[each] for each in library.used)) or "right"

    try:
        ways = {product() for _ in range(2)}  # a second product finds the GPUs connected
        return " and ".join(ways)
    except DeviceFault as error:
        if isinstance(error.__cause__, AssertionError):
            raise
        for thread in set(enumerate_threads()) - others if "all_end" in case else ():
            thread.join()
        return f"DeviceFault, {len(library.nccl.memory)} kept"
    except MatmulError as error:
        if "absent" in case or "release" in case:
            return f"{type(error).__name__}: {error}"
        assert not library.left(), library.left()
        assert library.xt.products < problem.batch or kernel is CUBLASMP, "none begins after it is called off"
        library.fails.clear()
        if "late" in case:
            multiplying._gang._barrier = Barrier(2)
        return f"{type(error).__name__}, then {product()}"


class LateBarrier(Barrier):
    """From its second use on, the first that came wakes up late: when the other comes again, or has failed."""

    def __init__(self, parties: int) -> None:
        super().__init__(parties)
        self._uses: dict[int, int] = {}
        self._changes = Condition()

    def wait(self, timeout: float | None = None) -> int:
        own = get_ident()
        with self._changes:
            self._uses[own] = self._uses.get(own, 0) + 1
            self._changes.notify_all()
        index = super().wait(timeout)
        if own == next(iter(self._uses)) and self._uses[own] > 1:
            with self._changes:
                self._changes.wait_for(lambda: self.broken or max(self._uses.values()) > self._uses[own])
            if self.broken:
                raise BrokenBarrierError
        return index

    def abort(self) -> None:
        super().abort()
        with self._changes:
            self._changes.notify_all()


def played_libraries(case: dict[str, Any]) -> PlayedMp:
    from worker.cuda.library import cublas_mp, cublas_xt, nccl

    fails = {name: by_number(statuses) for name, statuses in case.get("fails", {}).items()}
    beneath = PlayedNccl(case.get("nccl", 0), by_number(case.get("no_memory", {})))
    library = PlayedMp(case.get("ranks", 2), beneath, fails, case.get("release", 1000))
    xt = library.xt = PlayedXt(library.is_released)
    found = {"libnccl.so.2": beneath, "libcublasmp.so.0": library, "libcublas.so.13": xt}
    for module in (cublas_mp, cublas_xt, nccl):
        setattr(module, "shared_object", played({} if "absent" in case else found))  # noqa: B010
    pool = sys.modules["cupy"].get_default_memory_pool.return_value
    pool.free_all_blocks.side_effect = lambda: beneath.emptied.add(get_ident())
    if "cancelled" in case:
        library.is_released.clear()
    return library


def by_number(statuses: dict[str, int]) -> dict[int, int]:
    return {int(number): status for number, status in statuses.items()}


def failing_once(start_copy: Callable[..., None], way: str | None) -> Callable[..., None]:
    """The first copy up, or down, finds no memory."""
    ways = [way]

    def copy(*arguments: Any, to_device: bool) -> None:
        if ways == ["up" if to_device else "down"]:
            ways.clear()
            raise OutOfDeviceMemory
        start_copy(*arguments, to_device=to_device)

    return copy


def main() -> None:
    played_driver.install()
    cupy, inner = sys.modules["cupy"], sys.modules["cupy_backends.cuda.libs"]
    for owner, name in (
        (cupy.cuda.runtime, "CUDARuntimeError"),
        (cupy.cuda.driver, "CUDADriverError"),
        (inner.cublas, "CUBLASError"),
    ):
        setattr(owner, name, DeviceError)
    cupy.cuda.get_current_stream.return_value.ptr = cupy.cuda.Stream.return_value.ptr = 0
    for line in sys.stdin:
        print(json.dumps(outcome(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
