"""What a sketch on the device says by itself: the worst row, and digests of the matrices that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.errors import OperandDamaged
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem
from tests.gpu.products import before_check, choice
from tests.gpu.test_damage import flip_on_device, sent
from tests.gpu.test_device_sketch import all_on_device, expected_digests, random_seed
from tests.support.kernels.products import operands, stored
from worker.check.rounding import rounding_of
from worker.check.row_errors import RowErrors, row_errors
from worker.check.verify import WRAPPED_ROUNDS, check, group_width
from worker.cpu import blas as cpu_blas
from worker.device.runner import gathered

if TYPE_CHECKING:
    from worker.cuda.check.matrices import CheckedMatrices
    from worker.cuda.check.sketch_argument import SketchParameters
    from worker.cuda.products.on_device import ProductOnDevice
    from worker.cuda.runner import CudaRunner

IN_BLOCKS = Problem(700, 768, 1024, "float32")  # rows of whole blocks: digested as they are projected
ROW_MAJOR: tuple[DTypeName, ...] = ("float32", "float64", "bfloat16", "float16")


def lying(product: ProductOnDevice) -> CheckedMatrices:
    """A, B and the product on the device."""
    from worker.cuda.check.device_product import DeviceProduct

    assert isinstance(product.matrices, DeviceProduct)
    return product.matrices._matrices


@pytest.mark.parametrize("dtype", OWN_ACCURACY)
def test_the_worst_row_is_the_host_s(runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator) -> None:
    from worker.cuda.check.sketch import SketchOnDevice
    from worker.cuda.check.sketch_argument import SketchParameters

    problem = Problem(600, 701, 513, dtype)
    if problem.product_dtype == "int32":
        pytest.skip("integers have no tolerance")
    a, b = operands(problem, rng)
    c = cpu_blas.multiply(problem, a, b)
    rounding = rounding_of(problem, OWN_ACCURACY[dtype])
    for wrong in (False, True):
        if wrong:
            c[5, 7] = c.max()
        sketch = SketchOnDevice(all_on_device(runner, problem, a, b, c), group_width(problem.n, problem.k))
        sketch.launch(SketchParameters(random_seed()[0], tolerance=rounding.tolerance_factors))
        errors = row_errors(sketch.sketch(), rounding)
        np.testing.assert_allclose(sketch.worst(), errors.worst.max(), rtol=1e-9)
        assert (errors.largest_within is None) == wrong


@pytest.mark.parametrize("dtype", ROW_MAJOR)
def test_columns_of_zeros_or_almost_zeros_hide_nothing(
    runner: CudaRunner, dtype: DTypeName, rng: np.random.Generator
) -> None:
    from worker.cuda.check.sketch import SketchOnDevice
    from worker.cuda.check.sketch_argument import SketchParameters

    problem = Problem(600, 701, 513, dtype)
    a, b = operands(problem, rng)
    b[:, [3, 700]], b[:, 20] = 0, 0
    b[6, 20] = stored(np.array(2.0**-17 if dtype == "float16" else 1e-40), dtype)
    c, rounding = cpu_blas.multiply(problem, a, b), rounding_of(problem, OWN_ACCURACY[dtype])

    def errors(product: Array) -> RowErrors:
        sketch = SketchOnDevice(all_on_device(runner, problem, a, b, product), group_width(problem.n, problem.k))
        sketch.launch(SketchParameters(random_seed()[0], tolerance=rounding.tolerance_factors))
        return row_errors(sketch.sketch(), rounding)

    right, stale, zeroed = errors(c), c.copy(), c.copy()
    assert right.worst.max() <= 1.0
    assert right.bad_columns[0].nonzero()[0].tolist() == ([] if dtype == "float64" else [20])
    stale[7, 3], zeroed[9] = c[7, 4], 0
    for wrong, row in ((stale, 7), (zeroed, 9)):
        assert np.flatnonzero(errors(wrong).worst[0] > 1.0).tolist() == [row]


@pytest.mark.parametrize("dtype", ROW_MAJOR)
@pytest.mark.parametrize("sizes", [(700, 1024, 2048), (37, 2048, 512), (4096, 4096, 4096)])
def test_digests_are_taken_of_what_is_projected(
    runner: CudaRunner, dtype: DTypeName, sizes: tuple[int, int, int], rng: np.random.Generator
) -> None:
    from worker.cuda.check.sketch import SketchOnDevice, digestible
    from worker.cuda.check.sketch_argument import SketchParameters

    problem = Problem(*sizes, dtype)
    a, b = operands(problem, rng)
    c = operands(Problem(problem.m, 1, problem.n, problem.product_dtype), rng)[0]
    matrices, width = all_on_device(runner, problem, a, b, c), group_width(problem.n, problem.k)
    digested = digestible(matrices, width)
    assert digested == (True, True, True)
    sketch = SketchOnDevice(matrices, width, digested)
    sketch.launch(SketchParameters(random_seed()[0]))
    assert sketch.digests is not None
    found = sketch.digests.result()
    assert [each.tolist() for each in found] == [expected_digests(each) for each in (a, b, c)]


@pytest.mark.parametrize("checked", [False, True])
def test_a_product_of_whole_blocks_has_the_digest_of_the_bytes_that_come_back(
    runner: CudaRunner, checked: bool, rng: np.random.Generator
) -> None:
    """Whether a sketch took it or nobody asked for one."""
    a, b = operands(IN_BLOCKS, rng)
    with runner.compute(IN_BLOCKS, choice(runner, "naive", IN_BLOCKS), *sent(a, b)) as product:
        if checked:
            assert check(IN_BLOCKS, "fp32", product.matrices, rng).passed
        product.verify_operands()
        assert product.digest == digest_of(gathered(product.chunks()))


def test_a_product_of_whole_blocks_that_changes_after_its_check_has_another_digest(
    runner: CudaRunner, rng: np.random.Generator
) -> None:
    a, b = operands(IN_BLOCKS, rng)
    with runner.compute(IN_BLOCKS, choice(runner, "naive", IN_BLOCKS), *sent(a, b)) as product:
        assert check(IN_BLOCKS, "fp32", product.matrices, rng).passed
        flip_on_device(product.matrices.elementwise.c.matrix, 5)  # type: ignore[attr-defined]  # it lies on the device
        assert digest_of(gathered(product.chunks())) != product.digest


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_copy_is_found_by_what_its_check_reads(
    runner: CudaRunner, which: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product is right; its copy of an operand is dropped all the same."""

    def flip(product: ProductOnDevice) -> None:
        flip_on_device(lying(product)[which].matrix, 1000)  # of the lowest byte: far below the tolerance

    before_check(monkeypatch, flip)
    a, b = operands(IN_BLOCKS, rng)
    with runner.compute(IN_BLOCKS, choice(runner, "naive", IN_BLOCKS), *sent(a, b)) as product:
        assert check(IN_BLOCKS, "fp32", product.matrices, rng).passed
        with pytest.raises(OperandDamaged):
            product.verify_operands()


@pytest.mark.parametrize("dtype", OWN_ACCURACY)
@pytest.mark.parametrize("where", ["element", "row", "operand"])
def test_damage_between_the_kernel_and_its_check_is_found(
    runner: CudaRunner, dtype: DTypeName, where: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is on the stream already when the product is handed out. Each of its sketches is launched once."""
    from worker.cuda.check.sketch import SketchOnDevice

    launched: list[object] = []
    launch = SketchOnDevice.launch

    def counted(self: SketchOnDevice, parameters: SketchParameters) -> None:
        launched.append(parameters)
        launch(self, parameters)

    def damage(product: ProductOnDevice) -> None:
        a, _, c = lying(product)
        if where == "operand":
            flip_on_device(a.matrix, 1000)
        else:
            row_bytes, itemsize = c.matrix.layout.row_bytes, c.matrix.layout.itemsize
            start = c.matrix.memory + 7 * c.matrix.layout.pitch_bytes
            start.memset_async(0x45, row_bytes if where == "row" else itemsize)

    monkeypatch.setattr(SketchOnDevice, "launch", counted)
    problem = Problem(700, 768, 1024, dtype)
    a, b = operands(problem, rng)
    naive = choice(runner, "naive", problem)
    with runner.compute(problem, naive, *sent(a, b)) as product:
        assert check(problem, OWN_ACCURACY[dtype], product.matrices, rng).passed
        product.verify_operands()
    assert len(launched) == (WRAPPED_ROUNDS if dtype == "int32" else 1)
    before_check(monkeypatch, damage)
    with runner.compute(problem, naive, *sent(a, b)) as product:
        passed = check(problem, OWN_ACCURACY[dtype], product.matrices, rng).passed
        if where != "operand":
            assert not passed
        else:
            with pytest.raises(OperandDamaged):
                product.verify_operands()
