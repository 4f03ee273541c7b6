"""Products by libraries that take matrices from the host's memory, on one GPU, and on two where there are two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.settings import MIB, Settings
from kernels.entries.libraries import CUBLASMP, FROM_HOST
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.candidates import Choice
from tests.gpu.products import choice
from tests.gpu.products import multiply as computed_whole
from tests.gpu.worker.test_tiles import computed, integers, operands
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

MEMORY_BYTES = 48 * MIB
M, N, K = 2501, 2203, 1031
XT, MP = "cublas_xt", "cublasmp"
PAIRS = [(kernel.name, dtype) for kernel in (*FROM_HOST, CUBLASMP) for dtype in kernel.dtypes]


@pytest.fixture(scope="module")
def runners(gpu_settings: Settings) -> Iterator[dict[str, CudaRunner]]:
    """By kernel; without those that this machine has not the GPUs or the library for."""
    import cupy

    from worker.cuda.runner import CudaRunner

    small = {"device_memory_bytes": MEMORY_BYTES}
    found = {XT: CudaRunner(gpu_settings.model_copy(update=small))}
    if cupy.cuda.runtime.getDeviceCount() > 1:
        gang = CudaRunner(gpu_settings.model_copy(update=small | {"device": "gpus:0,1", "device_memory_bytes": None}))
        found |= {MP: gang} if MP in gang.kernels else {}
    yield found


def runner_of(runners: dict[str, CudaRunner], kernel: str) -> CudaRunner:
    if kernel not in runners:
        pytest.skip(f"{kernel} cannot run here")
    return runners[kernel]


@pytest.mark.parametrize(("kernel", "dtype"), PAIRS)
def test_a_product_that_is_checked_in_tiles(runners: dict[str, CudaRunner], kernel: str, dtype: DTypeName) -> None:
    problem = Problem(M, N, K, dtype)
    out, count = computed(runner_of(runners, kernel), kernel, problem)
    np.testing.assert_array_equal(out[0], multiply(problem, *operands(problem)))
    assert count > 1 or kernel == MP


@pytest.mark.parametrize(("kernel", "dtype"), PAIRS)
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_operands_stored_transposed(
    runners: dict[str, CudaRunner], kernel: str, dtype: DTypeName, transposed: tuple[bool, bool]
) -> None:
    problem = Problem(M, N, K, dtype, transpose_a=transposed[0], transpose_b=transposed[1])
    out, _ = computed(runner_of(runners, kernel), kernel, problem)
    np.testing.assert_array_equal(out[0], multiply(problem, *operands(problem)))


@pytest.mark.parametrize(("kernel", "dtype"), PAIRS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 29), (601, 499, 60), (5, 3, 0)])
def test_a_small_product(
    runners: dict[str, CudaRunner], kernel: str, dtype: DTypeName, shape: tuple[int, int, int]
) -> None:
    """It is checked by this process."""
    problem = Problem(*shape, dtype)
    a, b = operands(problem)
    c, verification, _ = computed_whole(runner_of(runners, kernel), kernel, problem, a, b, np.random.default_rng())
    np.testing.assert_array_equal(c, multiply(problem, a, b))
    assert verification.passed


@pytest.mark.parametrize("kernel", [XT, MP])
def test_what_was_there_before_is_nothing_to_it(runners: dict[str, CudaRunner], kernel: str) -> None:
    """A product grows in memory that other matrices had, and infinite elements stay in their rows and columns."""
    runner, problem = runner_of(runners, kernel), Problem(700, 501, 333, "float32")
    a, b = operands(problem)
    a[3, 5], b[7, 9] = np.inf, np.nan
    out = np.full((1, problem.m, problem.n), np.nan, np.float32)
    runner.tiler.libraries.multiply(choice(runner, kernel, problem), problem, a, b, out, never_cancelled, 1.0)
    np.testing.assert_array_equal(out[0], multiply(problem, a, b))


@pytest.mark.parametrize("kernel", [XT, MP])
def test_a_wrong_element_of_the_library_is_found(
    runners: dict[str, CudaRunner], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = runner_of(runners, kernel)
    rightly = runner.tiler.libraries.multiply

    def wrongly(by: Choice, problem: Problem, a: Array, b: Array, out: Array, *more: Any) -> float:
        spent_s = rightly(by, problem, a, b, out, *more)
        out[0, 1234, 567] += 1
        return spent_s

    monkeypatch.setattr(runner.tiler.libraries, "multiply", wrongly)
    with pytest.raises(AssertionError, match="passed=False"):
        computed(runner, kernel, Problem(M, N, K, "float32"))


@pytest.mark.parametrize("kernel", [XT, MP])
def test_a_batch_with_c(runners: dict[str, CudaRunner], kernel: str) -> None:
    problem = Problem.in_batch(900, 800, 700, "float32", 5)
    added = integers(problem.product_shape, "float32", 3)
    epilogue = Epilogue(2.0, -3.0, HostOperand(added, digest=digest_of(added)))
    out, _ = computed(runner_of(runners, kernel), kernel, problem, epilogue=epilogue)
    np.testing.assert_array_equal(out, add_epilogue(problem, epilogue, multiply(problem, *operands(problem))))


@pytest.mark.parametrize("kernel", [XT, MP])
@pytest.mark.parametrize(
    ("spoil", "error"), [("product", VerificationFailed), ("operand", OperandDamaged), ("panel", OperandDamaged)]
)
def test_what_changed_is_noticed(
    runners: dict[str, CudaRunner], kernel: str, spoil: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        computed(runner_of(runners, kernel), kernel, Problem(M, N, K, "float32"), spoil=spoil)
