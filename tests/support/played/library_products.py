"""Products by cuBLASMp on GPUs that are not there, by a library that is not there either:
`python -m tests.support.played.library_products` reads cases as JSON lines, and prints for each what came of it."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from jobs.errors import MatmulError, WrongState
from jobs.formats.elements import STORAGE_DTYPES
from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from tests.support.played import driver as played_driver
from tests.support.played.libraries import PlayedMp, PlayedNccl, PlayedXt, played
from tests.support.stores import numbers
from worker.cpu.blas import multiply
from worker.cuda.pitch import stored_shapes


class DeviceError(Exception):
    """No one raises it."""


def outcome(case: dict[str, Any]) -> str:
    from worker.cuda.from_host.libraries import HostLibraries
    from worker.cuda.library import cublas_mp, cublas_xt, nccl

    ranks = case.get("ranks", 2)
    fails, refuses = ({int(rank): code for rank, code in case.get(name, {}).items()} for name in ("fails", "refuses"))
    library = PlayedMp(ranks, fails, refuses)
    found = {"libnccl.so.2": PlayedNccl(case.get("nccl", 0)), "libcublasmp.so.0": library}
    found["libcublas.so.13"] = PlayedXt()
    for module in (cublas_mp, cublas_xt, nccl):
        setattr(module, "shared_object", played({} if "absent" in case else found))  # noqa: B010
    problem = Problem(**case["problem"])
    of_a, of_b = stored_shapes(problem)
    a, b = numbers(of_a, problem.dtype), numbers(of_b, problem.dtype, 1)
    c = np.full((problem.batch, problem.m, problem.n), 77, STORAGE_DTYPES[problem.product_dtype])

    def check_cancelled() -> None:
        if "cancelled" in case:
            library.is_released.set()
            raise WrongState

    if "cancelled" in case:
        library.is_released.clear()

    libraries, kernel = HostLibraries(range(ranks)), BY_NAME[case["kernel"]] if "kernel" in case else CUBLASMP
    choice = Choice(kernel, kernel.resolve_config(), "")
    for _ in range(2):  # a second product finds the GPUs connected
        libraries.multiply(choice, problem, a, b, c, check_cancelled, 1.0)
    np.testing.assert_array_equal(c, multiply(problem, a, b).reshape(c.shape))
    return f"{library.ended} descriptors"


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
        try:
            told = outcome(json.loads(line))
        except MatmulError as error:
            told = type(error).__name__
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
