"""The device itself: what it says it is, its memory, its errors, the check's own passes, kept kernels and operands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.errors import KernelUnavailable, OutOfDeviceMemory
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.interface import StoredMatrix
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.gpu.products import choice, multiply
from tests.support.kernels.products import assert_right, operands
from worker.check.verify import check
from worker.cuda.sources import Program, kernel_program
from worker.device.operands import HostOperand, StoredOperand
from worker.device.runner import Product, gathered
from worker.process.readiness import prove

HOST_CHECK_ELEMENTS = 3 << 14  # as in worker/cuda/runner.py

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner


def test_the_worker_proves_itself_ready(runner: CudaRunner, rng: np.random.Generator) -> None:
    offered = runner.kernels
    assert prove(runner, rng) == 2 * sum(len(BY_NAME[name].dtypes) for name in offered)
    assert runner.device.left_out == () and runner.kernels == offered


def test_the_device_says_what_it_is(runner: CudaRunner) -> None:
    device = runner.device
    of_several = {each.name for each in CATALOG if isinstance(each, HostLibraryKernel) and each.min_gpus > 1}
    of_gpus = (kernel.name for kernel in CATALOG if kernel.device_class == "gpu")
    assert runner.kernels == tuple(name for name in of_gpus if name not in of_several)
    assert device.name and device.uuid and device.uuid.startswith("GPU-")
    assert device.compute_capability and device.multiprocessors and device.memory_bytes and device.l2_bytes
    assert device.shared_bytes_per_block and device.registers_per_block
    assert device.theoretical.memory_gb_s is None or device.theoretical.memory_gb_s > 50
    assert {"driver", "cuda_runtime", "nvrtc", "cublas", "cupy"} <= set(device.versions)
    telemetry = runner.telemetry()
    assert telemetry.memory_free_bytes and telemetry.memory_free_bytes > 0
    assert telemetry.temperature_c is None or 0 < telemetry.temperature_c < 120


# ---- operands kept on the device ----
def test_an_operand_with_an_address_is_copied_once(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(400, 300, 500, "float32")
    a, b = operands(problem, rng)
    first, _, cold = multiply(runner, "cublas", problem, a, b, rng, ids=("a" * 64, "b" * 64))
    again, check, warm = multiply(runner, "cublas", problem, a, b, rng, ids=("a" * 64, "b" * 64))
    assert cold.h2d_ms > 0 and warm.h2d_ms == 0
    np.testing.assert_array_equal(first, again)
    assert check.passed
    _, _, inline = multiply(runner, "cublas", problem, a, b, rng)
    assert inline.h2d_ms > 0


def refused() -> StoredMatrix:
    raise AssertionError("the operand was opened")


@pytest.mark.parametrize(("m", "n"), [(448, 512), (450, 433), (40, 50)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_product_becomes_an_operand_where_it_lies(
    runner: CudaRunner, rng: np.random.Generator, dtype: DTypeName, m: int, n: int
) -> None:
    """Of any layout. Small ones are opened for the check on the host, but not copied to the device."""
    problem, second = Problem(m, n, 300, dtype), Problem(m, 350, n, dtype)
    (a, b), (_, c) = operands(problem, rng), operands(second, rng)
    with runner.compute(problem, choice(runner, "cublas", problem), HostOperand(a), HostOperand(b)) as product:
        assert check(problem, DTYPES[dtype].accuracy, product.matrices, rng).passed
        product.verify_operands()
        digest = product.digest
        stored = np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[dtype]).reshape(m, n)
        product.offer("c_first")
    runner.product_ended("c_first", awaited=True)
    small = m * n + n * 350 + m * 350 <= HOST_CHECK_ELEMENTS
    first = HostOperand(stored, "c_first", digest) if small else StoredOperand((m, n), refused, "c_first")
    with runner.compute(second, choice(runner, "cublas", second), first, HostOperand(c, "c" * 64)) as product:
        assert check(second, DTYPES[dtype].accuracy, product.matrices, rng).passed
        product.verify_operands()
        chained = np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[dtype]).reshape(m, 350)
    again, _, _ = multiply(runner, "cublas", second, stored, c, rng)
    np.testing.assert_array_equal(chained, again)


def test_a_product_in_groups_is_no_operand(runner: CudaRunner, rng: np.random.Generator) -> None:
    """Its rows lie otherwise."""
    problem = Problem(301, 333, 310, "int8")
    a, b = operands(problem, rng)
    with runner.compute(problem, choice(runner, "cublas", problem), HostOperand(a), HostOperand(b)) as product:
        product.offer("c_bytes")
    runner.product_ended("c_bytes", awaited=True)
    assert runner.cache.get("c_bytes") is None


def test_kept_operands_stay_within_their_bound(
    runner: CudaRunner, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worker.cuda.operand_cache import OperandCache

    monkeypatch.setattr(runner, "cache", OperandCache(256 << 20))
    problem = Problem(3000, 3000, 3000, "float32")  # 36 MB each
    for index in range(6):
        a, b = operands(problem, rng)
        ids = (f"{2 * index:064x}", f"{2 * index + 1:064x}")
        multiply(runner, "cublas", problem, a, b, rng, ids=ids)
        assert runner.cache.bytes <= 256 << 20
    assert runner.cache.get(f"{11:064x}") is not None
    assert runner.cache.get(f"{0:064x}") is None


# ---- memory ----
def test_what_cannot_fit_is_refused_before_anything_is_allocated(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(2_000_000, 2_000_000, 1, "float32")  # 16 TB
    a, b = operands(problem, rng)
    with pytest.raises(OutOfDeviceMemory, match="bytes on the device"), compute(runner, problem, a, b):
        pass
    still_works(runner, rng)


def test_memory_that_runs_out_all_the_same_is_an_error_of_its_own(
    runner: CudaRunner, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.cuda.gpu.admission.free_bytes", lambda: 1 << 60)
    problem = Problem(2_000_000, 2_000_000, 1, "float32")
    a, b = operands(problem, rng)
    with pytest.raises(OutOfDeviceMemory), compute(runner, problem, a, b):
        pass
    still_works(runner, rng)


def compute(runner: CudaRunner, problem: Problem, a: Array, b: Array) -> AbstractContextManager[Product]:
    return runner.compute(problem, choice(runner, "naive", problem), HostOperand(a), HostOperand(b))


def still_works(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(50, 60, 70, "float32")
    a, b = operands(problem, rng)
    assert_right(problem, a, b, multiply(runner, "naive", problem, a, b, rng)[0])


# ---- the check on the device ----
@pytest.mark.parametrize("bit", [30, 26, 23, 21])
def test_a_bit_flipped_on_the_device_is_found(runner: CudaRunner, bit: int, rng: np.random.Generator) -> None:
    import cupy

    problem = Problem(700, 600, 500, "float32")
    a, b = operands(problem, rng)
    with runner.compute(problem, choice(runner, "naive", problem), HostOperand(a), HostOperand(b)) as product:
        assert check(problem, "fp32", product.matrices, rng).passed
        c = product.matrices.elementwise.c.matrix  # type: ignore[attr-defined]  # it lies on the device
        place = (int(rng.integers(700)) * c.layout.pitch + int(rng.integers(600))) * 4
        word = cupy.ndarray((1,), np.uint32, c.memory + place)
        word[...] = int(word.get()[0]) ^ (1 << bit)
        assert not check(problem, "fp32", product.matrices, rng).passed


# ---- kept kernels ----
def test_a_compiled_kernel_is_kept_and_a_spoilt_one_made_again(
    runner: CudaRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from worker.cuda import compile

    kernel = BY_NAME["naive"]
    assert isinstance(kernel, CudaKernel)
    program = kernel_program(kernel, kernel.resolve_config(), Problem(1, 1, 1, "float32"))
    compile.Compiler(tmp_path).function(program, "naive")
    (kept,) = tmp_path.glob("*.cubin")
    with monkeypatch.context() as patch:
        patch.setattr(compile, "compile_program", lambda *_: pytest.fail("it is compiled already"))
        compile.Compiler(tmp_path).function(program, "naive")
    kept.write_bytes(b"spoilt")
    compile.Compiler(tmp_path).function(program, "naive")
    assert kept.read_bytes() != b"spoilt"


def test_a_source_that_does_not_compile_is_a_failure_with_a_sentence(runner: CudaRunner, tmp_path: Path) -> None:
    from worker.cuda.compile import Compiler

    source = tmp_path / "broken.cu"
    source.write_text("this is not CUDA")
    with pytest.raises(KernelUnavailable, match=r"broken\.cu does not compile"):
        Compiler(tmp_path / "kept").function(Program(source, ()), "broken")
