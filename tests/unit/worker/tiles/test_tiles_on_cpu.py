"""alpha·A·B + beta·C in tiles on the CPU: what it is, and what is noticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.tiles.plan import TilePlan, spans
from tests.support.stores import numbers
from worker.cpu import tiles
from worker.cpu.blas import multiply
from worker.cpu.epilogue import add_epilogue
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue
from worker.device.tiles import CheckedTile, TiledTask
from worker.product.operands import ProductOperands
from worker.product.tiled import _failure

PLAIN = Problem(30, 40, 20, "float32")
BATCH = Problem.in_batch(30, 40, 20, "bfloat16", 5)
CHOICE = Choice(BY_NAME["cpu_blas"], {}, "It was asked for.")


def sent(array: Array, *, flipped: bool = False) -> HostOperand:
    return HostOperand(array, digest=digest_of(array) ^ int(flipped))


def task_of(problem: Problem, *, c_shape: tuple[int, ...], flipped: bool = False) -> TiledTask:
    of_batch = (problem.batch,) if problem.batch > 1 else ()
    a = sent(numbers((*of_batch, problem.m, problem.k), problem.dtype))
    b = sent(numbers((*of_batch, problem.k, problem.n), problem.dtype, 1))
    c = sent(numbers(c_shape, problem.product_dtype, 2), flipped=flipped)
    out = np.zeros((problem.batch, problem.m, problem.n), STORAGE_DTYPES[problem.product_dtype])
    plan = TilePlan(problem, "a", 1, spans(problem.batch, problem.batch), spans(problem.m, 3), spans(problem.n, 2))
    return TiledTask(problem, CHOICE, plan, a, b, out, None, 7, epilogue=Epilogue(2.0, -3.0, c))


@pytest.mark.parametrize(
    ("problem", "c_shape"),
    [(PLAIN, (30, 40)), (BATCH, (30, 40)), (BATCH, (5, 30, 40))],
    ids=["one", "one for all", "each"],
)
def test_tiles_have_their_parts_of_c(problem: Problem, c_shape: tuple[int, ...]) -> None:
    task = task_of(problem, c_shape=c_shape)
    product = tiles.CpuTiledProduct(task)
    done = list(product.tiles(()))
    assert len(done) == task.plan.count and not any(each.is_wrong for each in done)
    assert all(each.verification.passed for each in done)
    product.finished({each.record.tile: each.record for each in done})
    p = multiply(problem, task.a.elements, task.b.elements)
    assert task.epilogue is not None
    np.testing.assert_array_equal(task.out, add_epilogue(problem, task.epilogue, p).reshape(task.out.shape))


def test_an_element_that_does_not_follow_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(problem: Problem, epilogue: Epilogue, p: Array) -> Array:
        d = add_epilogue(problem, epilogue, p)
        d[3, 4] += 1
        return d

    monkeypatch.setattr(tiles, "add_epilogue", wrong)
    task = task_of(PLAIN, c_shape=(30, 40))
    done = next(iter(tiles.CpuTiledProduct(task).tiles(())))
    assert done.is_wrong and done.wrong_elements == 1 and done.verification.passed
    assert not task.out.any()
    with pytest.raises(VerificationFailed, match="1 of its elements are not what alpha"):
        raise _failure(CHOICE, PLAIN, ProductOperands(task.a, task.b, None), task.out, done)


def test_a_c_that_is_not_what_was_sent_is_noticed() -> None:
    task = task_of(PLAIN, c_shape=(30, 40), flipped=True)
    product = tiles.CpuTiledProduct(task)
    done = list(product.tiles(()))
    with pytest.raises(OperandDamaged):
        product.finished({each.record.tile: each.record for each in done})


def test_a_tile_is_wrong_by_either_check() -> None:
    def told(passed: bool | None, wrong: int) -> bool:
        return CheckedTile(*cast(Any, (None, SimpleNamespace(passed=passed), None, wrong))).is_wrong

    assert told(False, 0) and told(True, 1)
    assert not told(True, 0) and not told(None, 0)
