"""Products in tiles on a GPU: by every kernel, as operands are stored, and what is noticed when something changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of, part_count, part_digests
from jobs.settings import MIB, Settings
from kernels.catalog import CATALOG
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import COMPLEX_ACCURACY, DTYPES, REAL_NAMES, DTypeName, Problem
from kernels.tiles.plan import Side, Span, TilePlan, rows_of_parts, slices, spans
from tests.gpu.products import choice
from worker.check.elements import narrow
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue
from worker.device.tiles import TiledTask, TileRecord

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

SEED = 99
MEMORY_BYTES = 12 * MIB
LARGER, SCALE = ("fp32_emulated", "hopper_fp32"), 3  # kernels that take a workspace of more than that
M, N, K = 1501, 1203, 1031
PAIRS = [
    (kernel.name, dtype)
    for kernel in CATALOG
    if kernel.device_class == "gpu" and not isinstance(kernel, HostLibraryKernel) and not kernel.needs_scales
    for dtype in kernel.dtypes
]


@pytest.fixture(scope="module")
def small(gpu_settings: Settings) -> Iterator[CudaRunner]:
    """That may use little of its GPU."""
    from worker.cuda.runner import CudaRunner

    yield CudaRunner(gpu_settings.model_copy(update={"device_memory_bytes": MEMORY_BYTES}))


@pytest.fixture(scope="module")
def larger(gpu_settings: Settings) -> Iterator[CudaRunner]:
    from worker.cuda.runner import CudaRunner

    yield CudaRunner(gpu_settings.model_copy(update={"device_memory_bytes": 4 * MEMORY_BYTES}))


def operands(problem: Problem) -> tuple[Array, Array]:
    """Integers, whose sums are exact in every type."""
    shape_a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
    shape_b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
    a = integers((problem.batch, *shape_a) if problem.a_batched else shape_a, problem.dtype, 1)
    b = integers((problem.batch, *shape_b) if problem.b_batched else shape_b, problem.dtype, 2)
    return a, b


def integers(shape: tuple[int, ...], dtype: DTypeName, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, size=shape)
    if DTYPES[dtype].is_complex:
        return (values + 1j * rng.integers(-2, 3, size=shape)).astype(STORAGE_DTYPES[dtype])
    if not DTYPES[dtype].is_integer and DTYPES[dtype].itemsize < 4:
        return narrow(values.astype(np.float32), dtype)
    return values.astype(STORAGE_DTYPES[dtype])


def computed(
    runner: CudaRunner,
    kernel: str,
    problem: Problem,
    *,
    spoil: str = "",
    epilogue: Epilogue | None = None,
    plan: TilePlan | None = None,
) -> tuple[Array, int]:
    """The product, and in how many tiles."""
    a, b = operands(problem)
    out = np.zeros((problem.batch, problem.m, problem.n), STORAGE_DTYPES[problem.product_dtype])
    by = choice(runner, kernel, problem)
    if plan is None:
        tiling = runner.tiling(problem, by, has_epilogue=epilogue is not None)
        assert tiling is not None
        plan = tiling.plan
    wrong = int(spoil == "operand")
    sent_a, sent_b = HostOperand(a, digest=digest_of(a)), HostOperand(b, digest=digest_of(b) ^ wrong)
    records: dict[int, TileRecord] = {}
    task = TiledTask(problem, by, plan, sent_a, sent_b, out, None, SEED, epilogue=epilogue)
    with runner.tiled(task) as product:
        for done in product.tiles(frozenset()):
            assert done.verification.passed and not done.is_wrong, (done.verification, done.wrong_elements)
            records[done.tile.number] = done.record
        if spoil == "product":
            out[0, -1, -1] += 1
        if spoil in ("panel", "addend"):
            records[0] = records[0].model_copy(update={"b" if spoil == "panel" else "c": 1})
        parts = product.finished(records)
    assert parts == part_digests(memoryview(out.tobytes()), part_count(out.nbytes))
    return out, plan.count


@pytest.mark.parametrize(("kernel", "dtype"), PAIRS)
def test_every_kernel_computes_tiles(small: CudaRunner, larger: CudaRunner, kernel: str, dtype: DTypeName) -> None:
    scale = SCALE if kernel in LARGER else 1
    problem = Problem(M * scale, N * scale, K, dtype)
    out, count = computed(larger if kernel in LARGER or DTYPES[dtype].is_complex else small, kernel, problem)
    assert count > 1
    if kernel.startswith("strassen"):
        np.testing.assert_allclose(out[0], multiply(problem, *operands(problem)), rtol=1e-3, atol=1)
    else:
        np.testing.assert_array_equal(out[0], multiply(problem, *operands(problem)))


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("cublas", "float32"),
        ("cublas", "float64"),
        ("cublas", "int8"),
        ("hopper_bf16", "bfloat16"),
        ("hopper_int8", "int8"),
        ("hopper_tf32", "float32"),
        ("fp32_emulated", "float32"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_first_tile_in_slices_and_panels_in_parts(
    larger: CudaRunner, kernel: str, dtype: DTypeName, turned: bool
) -> None:
    problem = Problem(12_289, 3001, 1024, dtype, transpose_b=turned)
    sides: tuple[tuple[Side, int], ...] = (("a", problem.m), ("b", problem.n))
    rows, columns = (spans(size, 4, rows_of_parts(problem, side)) for side, size in sides)
    plan = TilePlan(problem, "a", 1, (Span(0, 1),), rows, columns)
    assert plan.is_in_parts("a") and len(slices(plan, plan.largest)) > 1
    out, count = computed(larger, kernel, problem, plan=plan)
    assert count == 16
    np.testing.assert_array_equal(out[0], multiply(problem, *operands(problem)))


@pytest.mark.parametrize("dtype", [name for name in REAL_NAMES if name != "int32"])
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_operands_stored_transposed(small: CudaRunner, dtype: DTypeName, transposed: tuple[bool, bool]) -> None:
    problem = Problem(M, N, K, dtype, transpose_a=transposed[0], transpose_b=transposed[1])
    out, _ = computed(small, "cublas", problem)
    np.testing.assert_array_equal(out[0], multiply(problem, *operands(problem)))


@pytest.mark.parametrize("kernel", ["cublas", "complex_as_real"])
@pytest.mark.parametrize("dtype", COMPLEX_ACCURACY)
def test_conjugates_and_factors_of_complex_tiles(larger: CudaRunner, kernel: str, dtype: DTypeName) -> None:
    problem = Problem(M, N, K, dtype, transpose_a=True, conjugate_a=True, conjugate_b=True)
    added = integers((M, N), dtype, 3)
    epilogue = Epilogue(2 - 1j, 3j, HostOperand(added, digest=digest_of(added)))
    out, count = computed(larger, kernel, problem, epilogue=epilogue)
    expected = add_epilogue(problem, epilogue, multiply(problem, *operands(problem)))
    assert count > 1
    np.testing.assert_array_equal(out[0], expected)


@pytest.mark.parametrize("side", [90, 1203])
def test_a_batch(small: CudaRunner, side: int) -> None:
    problem = Problem.in_batch(side, side, side, "float32", 400 if side == 90 else 3)
    out, _ = computed(small, "cublas", problem)
    np.testing.assert_array_equal(out, multiply(problem, *operands(problem)))


@pytest.mark.parametrize("dtype", [name for name in REAL_NAMES if name != "int32"])
@pytest.mark.parametrize(("alpha", "beta"), [(2.0, -3.0), (-1.0, 0.0), (0.0, 2.0)])
def test_alpha_beta_and_c(small: CudaRunner, dtype: DTypeName, alpha: float, beta: float) -> None:
    problem = Problem(M, N, K, dtype)
    c = HostOperand(added := integers((M, N), problem.product_dtype, 3), digest=digest_of(added)) if beta else None
    epilogue = Epilogue(alpha, beta, c)
    out, count = computed(small, "cublas", problem, epilogue=epilogue)
    assert count > 1
    expected = add_epilogue(problem, epilogue, multiply(problem, *operands(problem)))
    np.testing.assert_array_equal(out[0], expected)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_batch_with_c(small: CudaRunner, is_shared: bool) -> None:
    problem = Problem.in_batch(600, 600, 600, "float32", 9)
    added = integers(problem.product_shape[1:] if is_shared else problem.product_shape, "float32", 3)
    epilogue = Epilogue(2.0, 1.0, HostOperand(added, digest=digest_of(added)))
    out, _ = computed(small, "cublas", problem, epilogue=epilogue)
    expected = add_epilogue(problem, epilogue, multiply(problem, *operands(problem)))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("spoil", ["sent", "addend"])
def test_a_c_that_changed_is_noticed(small: CudaRunner, spoil: str) -> None:
    added = integers((M, N), "float32", 3)
    epilogue = Epilogue(2.0, 1.0, HostOperand(added, digest=digest_of(added) ^ int(spoil == "sent")))
    with pytest.raises(OperandDamaged):
        computed(small, "cublas", Problem(M, N, K, "float32"), spoil=spoil, epilogue=epilogue)


@pytest.mark.parametrize(
    ("spoil", "error"), [("product", VerificationFailed), ("operand", OperandDamaged), ("panel", OperandDamaged)]
)
def test_what_changed_is_noticed(small: CudaRunner, spoil: str, error: type[Exception]) -> None:
    """The product before it is read once more, and an operand before it came here."""
    with pytest.raises(error):
        computed(small, "cublas", Problem(M, N, K, "float32"), spoil=spoil)
