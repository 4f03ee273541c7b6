"""Bits that flip on a GPU: in the copy of an operand, and which copies stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from kernels.model.numerics import OWN_ACCURACY, DTypeName, Problem
from tests.gpu.products import choice
from tests.support.kernels.products import operands
from worker.check.verify import check
from worker.device.operands import HostOperand
from worker.device.runner import gathered

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

IDS = "a" * 64, "b" * 64
LARGE = Problem(700, 601, 503, "float32")  # checked on the device
SMALL = Problem(70, 61, 53, "float32")  # checked on the CPU


def sent(a: Array, b: Array) -> tuple[HostOperand, HostOperand]:
    """Operands as a job has them: with an address, and with the digests of what was sent."""
    return HostOperand(a, IDS[0], digest_of(a)), HostOperand(b, IDS[1], digest_of(b))


def flip_on_device(matrix: Any, position: int, bit: int = 0) -> None:
    """A bit of a byte of the first row."""
    import cupy

    byte = cupy.ndarray((1,), np.uint8, matrix.memory + position)
    byte ^= 1 << bit


@pytest.mark.parametrize("dtype", OWN_ACCURACY)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("columns", [601, 640])
def test_the_product_s_digest_is_that_of_the_bytes_that_come_back(
    runner: CudaRunner, dtype: DTypeName, batch: int, columns: int, rng: np.random.Generator
) -> None:
    for rows in (33, 700):
        problem = Problem(rows, columns, 503, dtype, batch=batch, a_batched=batch > 1, b_batched=batch > 1)
        a, b = operands(problem, rng)
        with runner.compute(problem, choice(runner, "naive", problem), *sent(a, b)) as product:
            product.verify_operands()
            assert product.digest == digest_of(gathered(product.chunks()))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("position", [0, 1000])
def test_a_bit_that_flips_in_an_upload_is_found(
    runner: CudaRunner, which: int, position: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product is that of the damaged operand, so the check alone would pass."""
    from worker.cuda.memory import DeviceMatrix, upload
    from worker.cuda.products import operands as of_operands

    uploads = iter(range(2))

    def damaged_upload(elements: Array, matrix: DeviceMatrix) -> None:
        upload(elements, matrix)
        if next(uploads) == which:
            flip_on_device(matrix, position)

    monkeypatch.setattr(of_operands, "upload", damaged_upload)
    a, b = operands(LARGE, rng)
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        assert check(LARGE, "fp32", product.matrices, rng).passed
        with pytest.raises(OperandDamaged):
            product.verify_operands()


def test_a_bit_that_flips_in_an_operand_once_it_was_multiplied_spoils_nothing(
    runner: CudaRunner, rng: np.random.Generator
) -> None:
    """The product is right, and its elements are judged by the operands as sent. The copy is found at its next use."""
    a, b = operands(LARGE, rng)
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        copy = product.matrices._matrices[1].matrix  # type: ignore[union-attr]  # it lies on the device
        flip_on_device(copy, 3, bit=5)  # of the highest byte: an exponent, and the number stays finite
        assert check(LARGE, "fp32", product.matrices, rng).passed
        product.verify_operands()
        product.keep_operands()
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        with pytest.raises(OperandDamaged):
            product.verify_operands()
        product.drop_operands()


def test_a_product_that_changes_after_its_check_has_another_digest(
    runner: CudaRunner, rng: np.random.Generator
) -> None:
    a, b = operands(LARGE, rng)
    with runner.compute(LARGE, choice(runner, "naive", LARGE), *sent(a, b)) as product:
        assert check(LARGE, "fp32", product.matrices, rng).passed
        flip_on_device(product.matrices.elementwise.c.matrix, 5)  # type: ignore[attr-defined]  # as above
        assert digest_of(gathered(product.chunks())) != product.digest


def test_operands_that_changed_before_the_upload_are_found(runner: CudaRunner, rng: np.random.Generator) -> None:
    for problem in (SMALL, LARGE):
        a, b = operands(problem, rng)
        pair = sent(a, b)
        b.reshape(-1).view(np.uint8)[-4] ^= 1
        with (
            runner.compute(problem, choice(runner, "naive", problem), *pair) as product,
            pytest.raises(OperandDamaged),
        ):
            product.verify_operands()


@pytest.mark.parametrize("problem", [SMALL, LARGE], ids=["small", "large"])
def test_copies_count_once_they_are_kept_and_go_together(
    runner: CudaRunner, problem: Problem, rng: np.random.Generator
) -> None:
    a, b = operands(problem, rng)
    naive = choice(runner, "naive", problem)
    with runner.compute(problem, naive, *sent(a, b)) as product:
        assert not any(runner.cache.get(each) for each in IDS)
        product.keep_operands()
    assert all(runner.cache.get(each) for each in IDS)
    with runner.compute(problem, naive, *sent(a, b)) as product:
        assert product.measured.h2d_ms == 0
        product.drop_operands()
    assert not any(runner.cache.get(each) for each in IDS) and runner.cache.bytes == 0


def test_a_kept_copy_that_changed_is_found_at_its_next_use(runner: CudaRunner, rng: np.random.Generator) -> None:
    a, b = operands(LARGE, rng)
    naive = choice(runner, "naive", LARGE)
    with runner.compute(LARGE, naive, *sent(a, b)) as product:
        product.keep_operands()
    kept = runner.cache.get(IDS[0])
    assert kept is not None
    flip_on_device(kept.copy, 4)
    with runner.compute(LARGE, naive, *sent(a, b)) as product, pytest.raises(OperandDamaged):
        product.verify_operands()


def test_one_copy_serves_a_matrix_times_itself(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = Problem(500, 500, 500, "float32")
    a, _ = operands(problem, rng)
    twice = HostOperand(a, IDS[0], digest_of(a))
    with runner.compute(problem, choice(runner, "naive", problem), twice, twice) as product:
        product.verify_operands()
        product.keep_operands()
    assert runner.cache.bytes == runner.cache.get(IDS[0]).copy.layout.bytes  # type: ignore[union-attr]  # it is kept
