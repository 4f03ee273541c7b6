"""Rows and columns of a product that the device computes again: with the host's verdict, and without the host where
nothing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, REAL_NAMES, AccuracyName, DTypeName, Problem
from tests.gpu.check.test_sketch_verdict import lying
from tests.gpu.products import before_check, choice
from tests.gpu.test_damage import flip_on_device, sent
from tests.gpu.test_device_sketch import TRANSPOSES, all_on_device
from tests.support.kernels.products import Data, operands, stored
from worker.check.block import NEAR
from worker.check.checkable import HostProduct
from worker.check.elements import as_float64, core
from worker.check.elementwise import worst_of, worst_of_element
from worker.check.host_matrix import HostMatrix
from worker.check.rounding import rounding_of
from worker.check.verify import check
from worker.cpu import blas as cpu_blas

if TYPE_CHECKING:
    from worker.check.elementwise import Operands
    from worker.cuda.products.on_device import ProductOnDevice
    from worker.cuda.runner import CudaRunner

FLOATS = [dtype for dtype in REAL_NAMES if not DTYPES[dtype].is_integer]
DATA: tuple[Data, ...] = ("normal", "wide", "ramp", "constant")
LARGE = Problem(700, 768, 1024, "float16")  # long enough for a sketch
ROW, COLUMN = 7, 11


def on_host(problem: Problem, a: Array, b: Array, c: Array) -> Operands:
    of_a = HostMatrix(core(a, transposed=problem.transpose_a), problem.dtype)
    of_b = HostMatrix(core(b, transposed=problem.transpose_b), problem.dtype)
    return HostProduct(of_a, of_b, HostMatrix(core(c, transposed=False), problem.product_dtype)).elementwise


@pytest.fixture
def asked_of_host(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the host computes of what the device should."""
    from worker.cuda.check import device_product, recheck

    asked: list[str] = []

    def of_element(operands: Operands, item: int, row: int, column: int, rounding: object) -> float:
        asked.append(f"element {item} {row} {column}")
        return worst_of_element(operands, item, row, column, rounding)  # type: ignore[arg-type]

    def of_lines(operands: Operands, rows: Array, columns: Array, rounding: object) -> float:
        asked.append("lines")
        return worst_of(operands, rows, columns, rounding)  # type: ignore[arg-type]

    monkeypatch.setattr(recheck, "worst_of_element", of_element)
    for module in (recheck, device_product):
        monkeypatch.setattr(module, "worst_of", of_lines)
    return asked


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_the_host_s_ratio(
    runner: CudaRunner, dtype: DTypeName, transposes: tuple[bool, bool], rng: np.random.Generator
) -> None:
    from worker.cuda.check.recheck import Recheck

    for data, is_wrong in ((each, wrong) for each in DATA for wrong in (False, True)):
        problem = Problem(133, 170, 301, dtype, 2, *transposes, a_batched=True)
        a, b = operands(problem, rng, data)
        core(a, transposed=transposes[0])[1, 5, 9] = stored(np.array(np.nan), dtype)
        with np.errstate(all="ignore"):
            c = cpu_blas.multiply(problem, a, b)
        if is_wrong:
            c[0, 3, 4], c[1, 5, 6] = (stored(np.array(each), problem.product_dtype) for each in (1e4, 0.5))
        rows, columns = np.zeros((2, 133), np.bool_), np.zeros((2, 170), np.bool_)
        rows[0, :60] = rows[1, ::2] = rows[1, 5] = columns[1, [0, 169]] = True
        rounding, host = rounding_of(problem, DTYPES[dtype].accuracy), on_host(problem, a, b, c)
        found = Recheck(all_on_device(runner, problem, a, b, c), host, rounding).worst(rows, columns)
        expected = worst_of(host, rows, columns, rounding)
        assert (found > 1.0) == (expected > 1.0) == is_wrong
        if not is_wrong and data in ("normal", "wide"):  # of drifting sums the host looks at the farthest alone
            slack = NEAR if dtype == "float64" else 1e-8
            np.testing.assert_allclose(max(found, slack), max(expected, slack), rtol=1e-2, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", ["normal", "constant"])
def test_a_suspicious_row_that_is_right_passes_without_the_host(
    runner: CudaRunner,
    dtype: DTypeName,
    data: Data,
    rng: np.random.Generator,
    asked_of_host: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An element within its bound, but by so little that its row's projections are not; and sums that drift."""
    from worker.cuda.check.recheck import Recheck

    launched: list[object] = []
    computed = Recheck._computed

    def counted(self: Recheck, *args: object, **kwargs: object) -> object:
        launched.append(args)
        return computed(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Recheck, "_computed", counted)
    problem = Problem(700, 768, 1024, dtype)
    a, b = operands(problem, rng, data)
    if data == "normal":
        b[:, COLUMN] *= 31.9 / np.linalg.norm(b[:, COLUMN])  # just below a power of two, by which it is divided
        before_check(monkeypatch, lambda product: put(product, problem, a, b, 0.97))
    with runner.compute(problem, choice(runner, "naive", problem), *sent(a, b)) as product:
        assert check(problem, DTYPES[dtype].accuracy, product.matrices, rng).passed
        product.verify_operands()
    assert asked_of_host == []
    assert launched or data == "constant" or dtype == "float64"  # whose tolerance grants the check's own roundings too


def put(product: ProductOnDevice, problem: Problem, a: Array, b: Array, share: float) -> None:
    """An element that is off by that share of its bound."""
    import cupy

    rounding = rounding_of(problem, DTYPES[problem.dtype].accuracy)
    of_a, of_b = as_float64(a[ROW], problem.dtype), as_float64(b[:, COLUMN], problem.dtype)
    true = of_a @ of_b
    size, root = np.abs(of_a) @ np.abs(of_b), np.sqrt(np.square(of_a) @ np.square(of_b))
    off = share * float(rounding.element_bound(size, root, np.abs(true)))
    lies = lying(product)[2].matrix
    value = stored(np.array([true + off]), problem.product_dtype)
    start = lies.memory + ROW * lies.layout.pitch_bytes + COLUMN * lies.layout.itemsize
    cupy.ndarray((1,), value.dtype, start)[...] = cupy.asarray(value)


@pytest.mark.parametrize("bit", [4, 9, 14])
def test_a_bit_that_flips_in_a_product_is_found_again(
    runner: CudaRunner,
    bit: int,
    rng: np.random.Generator,
    asked_of_host: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The host has the last word, about that element alone."""

    def flip(product: ProductOnDevice) -> None:
        lies = lying(product)[2].matrix
        flip_on_device(lies, ROW * lies.layout.pitch_bytes + 2 * COLUMN + bit // 8, bit % 8)

    before_check(monkeypatch, flip)
    a, b = operands(LARGE, rng)
    a[ROW] = np.abs(a[ROW])
    b[:, COLUMN] = np.abs(b[:, COLUMN])  # a sum of one sign is not close to 0, and so no bit is small beside the bound
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        assert not check(LARGE, "tf32", product.matrices, rng).passed
    assert asked_of_host == [f"element 0 {ROW} {COLUMN}"]


def test_an_operand_that_changes_before_its_rows_are_computed_again_accuses_no_product(
    runner: CudaRunner, rng: np.random.Generator, asked_of_host: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the copy on the device the product is wrong, by the host's it is not."""
    before_check(monkeypatch, lambda product: flip_on_device(lying(product)[0].matrix, 2 * COLUMN + 1, 6))
    a, b = operands(LARGE, rng)
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        assert check(LARGE, "tf32", product.matrices, rng).passed
    assert asked_of_host


@pytest.mark.parametrize("accuracy", ["tf32", "fp32"])
def test_what_is_not_finite_and_what_overflows_passes_without_the_host(
    runner: CudaRunner, accuracy: AccuracyName, rng: np.random.Generator, asked_of_host: list[str]
) -> None:
    problem = Problem(700, 768, 1024, "float32")
    name = "hopper_tf32" if accuracy == "tf32" else "naive"
    a, b = operands(problem, rng)
    a[3, 5], a[8], b[9, 77] = np.nan, 1e30, -np.inf
    b[:, 20] = 1e10
    with runner.compute(problem, choice(runner, name, problem), *sent(a, b)) as product:
        assert check(problem, accuracy, product.matrices, rng).passed
    assert asked_of_host == []
