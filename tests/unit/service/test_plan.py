"""Which products can be computed as asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import InvalidConfig, InvalidRequest, NoWorkerForKernel, NoWorkers, ShapeMismatch, UnsupportedDType
from jobs.fleet.workers import WorkerInfo
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPE_NAMES, DTYPES, DTypeName
from service.bodies.options import MatmulOptions
from service.submit.operand_type import OperandType
from service.submit.placement import choose_queue
from service.submit.plan import ProductPlan, make_plan
from tests.support.kernels.catalogue import max_registers, max_shared_memory
from tools.harness.api import worker_info

LIMIT = 1 << 40


def plan(options: MatmulOptions, a: tuple[int, ...], b: tuple[int, ...], dtype: DTypeName = "float32") -> ProductPlan:
    return make_plan(options, OperandType(dtype, a), OperandType(dtype, b), max_product_bytes=LIMIT)


sizes = st.integers(0, 3)
shapes = st.tuples(sizes, sizes) | st.tuples(sizes, sizes, sizes)


@given(shapes, shapes, st.booleans(), st.booleans())
def test_it_agrees_with_numpy(a: tuple[int, ...], b: tuple[int, ...], transpose_a: bool, transpose_b: bool) -> None:
    """Shapes that numpy multiplies, one batch or none, and nothing empty, give the shape that numpy gives."""
    options = MatmulOptions(transpose_a=transpose_a, transpose_b=transpose_b)
    x = np.zeros(a).swapaxes(-1, -2) if transpose_a else np.zeros(a)
    y = np.zeros(b).swapaxes(-1, -2) if transpose_b else np.zeros(b)
    batches_agree = len(a) < 3 or len(b) < 3 or a[0] == b[0]  # numpy would repeat a batch of one
    expected = (x @ y).shape if x.shape[-1] == y.shape[-2] and batches_agree else None
    if expected is None or 0 in expected:
        with pytest.raises(ShapeMismatch):
            plan(options, a, b)
    else:
        made = plan(options, a, b).problem
        assert made.product_shape == expected
        assert (made.m, made.n, made.k) == (x.shape[-2], y.shape[-1], x.shape[-1])


def test_the_sentence_of_a_mismatch() -> None:
    with pytest.raises(ShapeMismatch) as refused:
        plan(MatmulOptions(), (3, 4), (5, 2))
    assert refused.value.detail == "a is 3×4 but b is 5×2: a's columns must equal b's rows."
    with pytest.raises(ShapeMismatch, match="a transposed is 4×3 but b is 4×2"):
        plan(MatmulOptions(transpose_a=True), (3, 4), (4, 2))


def test_the_sentence_of_a_kernel_for_another_type() -> None:
    with pytest.raises(UnsupportedDType) as refused:
        plan(MatmulOptions(kernel="hopper_bf16"), (2, 3), (3, 2))
    assert refused.value.detail == (
        "hopper_bf16 does not multiply float32 operands, nor 16-bit ones with output_dtype float32, which are "
        "multiplied as float32; it takes bfloat16."
    )


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_element_type_has_a_kernel(dtype: DTypeName) -> None:
    made = plan(MatmulOptions(), (2, 3), (3, 2), dtype)
    assert made.accuracy == DTYPES[dtype].accuracy
    assert {kernel.name for kernel in made.kernels} <= {kernel.name for kernel in CATALOG}
    assert "cpu_blas" in {kernel.name for kernel in made.kernels}


def test_sizes_are_checked_before_anything_is_allocated() -> None:
    with pytest.raises(InvalidRequest, match="largest"):
        plan(MatmulOptions(), (2**40, 1), (1, 2**40))


def test_a_seeded_operand_may_name_another_type_than_the_default() -> None:
    made = OperandType("float64", (2, 2), adopts_dtype=True)
    options = MatmulOptions(dtype="float32")
    assert make_plan(options, made, made, max_product_bytes=LIMIT).problem.dtype == "float64"


AUTO = plan(MatmulOptions(), (2, 2), (2, 2))
GPU = worker_info("gpu", kernels=("naive", "cublas"), device_class="gpu", compute_capability=(9, 0))
CPU = worker_info("cpu")


def test_a_gpu_is_preferred_where_one_can_do_it() -> None:
    assert choose_queue(MatmulOptions(), AUTO, [CPU, GPU]) == "gpu"
    assert choose_queue(MatmulOptions(), AUTO, [CPU]) == "cpu"
    only_cublas = worker_info("gpu", kernels=("cublas",), device_class="gpu", compute_capability=(9, 0))
    integers = plan(MatmulOptions(), (2, 2), (2, 2), "int32")  # which cuBLAS does not take
    assert choose_queue(MatmulOptions(), integers, [CPU, only_cublas]) == "cpu"
    of_another_version = CPU.model_copy(update={"kernels": ("cpu_gemm",)})
    assert choose_queue(MatmulOptions(), AUTO, [of_another_version, GPU]) == "gpu"
    assert choose_queue(MatmulOptions(), AUTO, [of_another_version]) == "cpu"  # it may be able to


def test_a_named_kernel_goes_where_it_is_served() -> None:
    for name, queue in (("cpu_blas", "cpu"), ("naive", "gpu")):
        options = MatmulOptions(kernel=name)
        assert choose_queue(options, plan(options, (2, 2), (2, 2)), [CPU, GPU]) == queue


def test_no_worker_for_the_product() -> None:
    with pytest.raises(NoWorkers):
        choose_queue(MatmulOptions(), AUTO, [])
    naive = MatmulOptions(kernel="naive")
    for workers, served in (([CPU], "cpu_blas"), ([], "none")):
        with pytest.raises(NoWorkerForKernel, match=f"serves naive; served now: {served}"):
            choose_queue(naive, plan(naive, (2, 2), (2, 2)), workers)


def test_more_sums_than_a_thread_has_registers_are_refused_before_a_device_is_known() -> None:
    kernel, config, dtype = max_registers()
    options = MatmulOptions(kernel=kernel.name, config=dict(config))
    with pytest.raises(InvalidConfig, match=rf"{kernel.name} with .* keeps \d+ registers of {dtype} sums") as refused:
        plan(options, (9, 9), (9, 9), dtype)
    assert refused.value.field == "config"
    assert plan(MatmulOptions(kernel=kernel.name), (9, 9), (9, 9), dtype).kernels == (kernel,)


def gpu(name: str, kernel: CudaKernel, shared_bytes_per_block: int) -> WorkerInfo:
    """A worker with a queue of its own, so that a test sees which one was chosen."""
    found = worker_info(
        name,
        kernels=(kernel.name,),
        device_class="gpu",
        compute_capability=(9, 0),
        shared_bytes_per_block=shared_bytes_per_block,
    )
    return found.model_copy(update={"queue": name})


def test_a_config_goes_to_a_device_that_it_fits() -> None:
    kernel, config, need = max_shared_memory("float32")
    options = MatmulOptions(kernel=kernel.name, config=dict(config))
    made = plan(options, (999, 999), (999, 999))
    small, large = gpu("small", kernel, need - 1), gpu("large", kernel, need)
    assert choose_queue(options, made, [small, large]) == "large"
    with pytest.raises(InvalidConfig, match=f"needs {need} bytes .* the device has {need - 1}") as refused:
        choose_queue(options, made, [small])
    assert refused.value.field == "config"
    unknown = worker_info("unknown", kernels=(kernel.name,), device_class="gpu", compute_capability=(9, 0))
    assert choose_queue(options, made, [small, unknown]) == "gpu"


def test_without_a_config_one_that_fits_is_found() -> None:
    kernel, _, need = max_shared_memory("float32")
    options = MatmulOptions(kernel=kernel.name)
    made = plan(options, (4096, 9), (9, 4096))
    assert choose_queue(options, made, [gpu("small", kernel, need - 1)]) == "small"
