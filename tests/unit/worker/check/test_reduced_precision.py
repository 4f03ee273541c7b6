"""cuBLAS's modes that round float32 operands: who gets them, and what their check grants and refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jobs.errors import JobFailed, OperandOutOfRange, VerificationFailed
from jobs.formats.elements import Array
from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.model.numerics import ACCURACY_NAMES, DTYPES, AccuracyName, DTypeName, Problem, meets
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose
from service.bodies.options import MatmulOptions
from service.submit.operand_type import OperandType
from service.submit.plan import make_plan
from tests.support.kernels.checks import checked
from tests.support.kernels.products import operands
from worker.cpu.blas import multiply
from worker.cpu.runner import CpuProduct
from worker.device.cancellable_lock import CancellableLock
from worker.device.operands import HostOperand
from worker.product.multiply import verify

MODES = {"cublas_tf32": "tf32", "cublas_bf16": "bf16", "cublas_fp16": "fp16"}
H200 = DeviceTraits("gpu", (9, 0), 227 << 10, 132)
TURING = DeviceTraits("gpu", (7, 5), 64 << 10, 40)
PROBLEM = Problem(90, 80, 70, "float32")


# ---- who gets them ----
@pytest.mark.parametrize(
    ("dtype", "accuracy", "name"),
    [
        ("float32", "fp32", "cublas"),
        ("float32", "tf32", "cublas_tf32"),
        ("float32", "bf16", "cublas_bf16"),
        ("float32", "fp16", "cublas_fp16"),
        ("float64", "tf32", "cublas"),
        ("float16", "tf32", "cublas"),
        ("float16", "fp16", "cublas"),
        ("bfloat16", "bf16", "cublas"),
    ],
)
def test_auto_lowers_precision_only_where_it_was_asked_for(dtype: DTypeName, accuracy: AccuracyName, name: str) -> None:
    assert choose("auto", NO_CONFIG, Problem(90, 80, 70, dtype), accuracy, H200).kernel.name == name


def test_a_device_without_the_tensor_cores_for_it_keeps_full_precision() -> None:
    assert choose("auto", NO_CONFIG, PROBLEM, "bf16", TURING).kernel.name == "cublas"
    assert choose("auto", NO_CONFIG, PROBLEM, "fp16", TURING).kernel.name == "cublas_fp16"


@pytest.mark.parametrize("name", MODES)
def test_by_name_they_do_not_serve_who_wants_more(name: str) -> None:
    with pytest.raises(NoKernelError, match=f"{name} does not multiply float32 operands to fp32 accuracy"):
        choose(name, NO_CONFIG, PROBLEM, "fp32", H200)


@pytest.mark.parametrize(("name", "accuracy"), MODES.items())
def test_a_named_kernel_without_accuracy_has_its_own_class(name: str, accuracy: AccuracyName) -> None:
    operand = OperandType("float32", (4, 4))
    plan = make_plan(MatmulOptions(kernel=name), operand, operand, max_product_bytes=1 << 20)
    assert plan.accuracy == accuracy


def test_a_narrow_range_serves_those_alone_who_asked_for_it() -> None:
    assert [asked for asked in ACCURACY_NAMES if meets("fp16", asked)] == ["fp16"]
    assert [offered for offered in ACCURACY_NAMES if meets(offered, "fp16")] == [
        *("fp16", "tf32", "fp32", "fp64", "exact")
    ]


def test_every_entry_of_lower_precision_is_a_known_mode() -> None:
    lowered = {
        kernel.name
        for kernel in CATALOG
        for dtype, accuracy in kernel.accuracy.items()
        if not meets(accuracy, DTYPES[dtype].accuracy)
    }
    assert lowered == {*MODES, "cublas_tf32_tuned", "hopper_tf32", "strassen"}
    assert all(isinstance(BY_NAME[name], LibraryKernel) for name in MODES)


# ---- what their check grants ----
def to_bits(kept: int) -> Callable[[Array], Array]:
    """Rounds float32 to so many significant bits, with the exponents it has."""

    def rounded(x: Array) -> Array:
        cut = 24 - kept
        bits = x.view(np.uint32).astype(np.uint64)
        bits += (1 << (cut - 1)) - 1 + (bits >> cut & 1)
        return (bits >> cut << cut).astype(np.uint32).view(np.float32)

    return rounded


def to_half(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


ROUNDED: dict[str, Callable[[Array], Array]] = {"tf32": to_bits(11), "bf16": to_bits(8), "fp16": to_half}


@pytest.mark.parametrize("accuracy", ROUNDED)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-5, 1e-7, 1e-9, 1e4])
def test_rounded_operands_pass_in_their_class(accuracy: AccuracyName, scale: float) -> None:
    """Small ones too, of which float16 keeps few bits or none."""
    rng = np.random.default_rng(11)
    for m, n, k in ((90, 80, 70), (40, 3, 1), (5, 200, 2), (3, 4, 3000)):
        problem = Problem(m, n, k, "float32")
        a, b = operands(problem, rng)
        a = (a * np.float32(scale)).astype(np.float32)
        c = multiply(problem, ROUNDED[accuracy](a), ROUNDED[accuracy](b))
        assert checked(problem, a, b, c, rng, accuracy).passed, (m, n, k)


@pytest.mark.parametrize("accuracy", ["tf32", "bf16"])
@pytest.mark.parametrize("shape", [(9, 8, 70), (90, 100, 1000)])
def test_operands_below_the_normal_numbers_pass_in_their_class(
    accuracy: AccuracyName, shape: tuple[int, int, int]
) -> None:
    """Of these the shorter types keep fewer bits, or none."""
    problem, rng = Problem(*shape, "float32"), np.random.default_rng(17)
    a, b = operands(problem, rng)
    for exponent in (-127, -132, -136, -140):
        few, all_rows = a.copy(), np.ldexp(a, exponent)
        few[4] = all_rows[4]
        for small in (few, all_rows):
            for other in (b, np.ldexp(b, 100)):
                c = multiply(problem, ROUNDED[accuracy](small), ROUNDED[accuracy](other))
                assert checked(problem, small, other, c, rng, accuracy).passed
                wrong = c.copy()
                wrong[5] = c[6] if small is few else 1e20  # far from what they may be
                assert not checked(problem, small, other, wrong, rng, accuracy).passed


def test_small_operands_in_float16_do_not_pass_as_tf32() -> None:
    rng = np.random.default_rng(12)
    a, b = operands(PROBLEM, rng)
    a = (a * np.float32(1e-6)).astype(np.float32)
    c = multiply(PROBLEM, to_half(a), to_half(b))
    assert not checked(PROBLEM, a, b, c, rng, "tf32").passed
    assert checked(PROBLEM, a, b, c, rng, "fp16").passed


@pytest.mark.parametrize("accuracy", ROUNDED)
def test_a_wrong_element_is_still_found(accuracy: AccuracyName) -> None:
    rng = np.random.default_rng(13)
    a, b = operands(PROBLEM, rng)
    c = multiply(PROBLEM, ROUNDED[accuracy](a), ROUNDED[accuracy](b))
    c[17, 5] += 30.0 if accuracy == "bf16" else 4.0  # the row has a norm of √(70·80)
    assert not checked(PROBLEM, a, b, c, rng, accuracy).passed


# ---- what a caller reads ----
def failure(name: str, a: Array, b: Array, c: Array) -> JobFailed:
    shape = OperandRef(source="inline", matrix="op", dtype="float32", shape=(0, 0))
    request = MatmulRequest(a=shape, b=shape, kernel=name, accuracy=BY_NAME[name].accuracy["float32"])
    choice = Choice(BY_NAME[name], NO_CONFIG, "it was asked for.")
    given, device_lock = (HostOperand(a), HostOperand(b)), CancellableLock().request()
    product = CpuProduct(PROBLEM, given, c, c, kernel_ms=1.0, device_lock=device_lock)
    with pytest.raises(JobFailed) as failed:
        verify(request, PROBLEM, choice, product, np.random.default_rng(14))
    return failed.value


def test_operands_too_large_for_float16_are_told() -> None:
    a, b = operands(PROBLEM, np.random.default_rng(15))
    a[3, 4] = -1e5
    with np.errstate(all="ignore"):
        c = multiply(PROBLEM, to_half(a), to_half(b))
    error = failure("cublas_fp16", a, b, c)
    assert isinstance(error, OperandOutOfRange) and not error.retryable
    assert "ends at 65504, and an operand has elements of 100000; scale the operands" in error.detail


def test_a_wrong_product_of_operands_in_range_is_a_wrong_product() -> None:
    a, b = operands(PROBLEM, np.random.default_rng(16))
    for name, size in (("cublas_fp16", 1.0), ("cublas_tf32", 1e5)):
        c = multiply(PROBLEM, a * np.float32(size), b)
        c[2] *= 2
        assert isinstance(failure(name, a * np.float32(size), b, c), VerificationFailed)
