"""Products of several jobs whose operands the played device stacks, as `worker/product/batch.py` has them made."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from jobs.errors import VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.interface import StoredMatrix
from kernels.catalog import CATALOG
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from tests.support.played.driver import calls
from tests.support.stores import StoreBench, fresh_name, numbers
from worker.cpu.blas import multiply
from worker.device.operands import StackedOperand, StoredOperand


def play_stacked(bench: StoreBench, runner: Any, problem: Problem, case: dict[str, Any]) -> str:
    """`case["jobs"]` products of this problem. With `named` their operands may stay on the device, and all jobs have
    the same B. `flipped`: the job whose A is damaged in the store."""
    from worker.cuda.gpu.cores import DeviceCores

    jobs, named = range(case["jobs"]), case.get("named", False)
    sent = [(_numbers(problem, "a", job), _numbers(problem, "b", 0 if named else job)) for job in jobs]
    infos = [(bench.put(a), bench.put(b)) for a, b in sent]
    if "flipped" in case:
        bench.flip(7, infos[case["flipped"]][0].id)
    stacked = [StackedOperand([_opened(bench, pair[side], named=named) for pair in infos]) for side in (0, 1)]
    batch = replace(problem, batch=len(jobs), a_batched=True, b_batched=True)
    kernel = next(each for each in CATALOG if problem.dtype in each.accuracy)
    choice = Choice(kernel, {}, "It was asked for.")
    dtype, shape = problem.product_dtype, problem.product_shape
    calls.clear()
    with ExitStack() as opened:
        places = [opened.enter_context(bench.store.place(dtype, shape)) for _ in jobs]
        cores = DeviceCores().request()
        product = runner._compute(batch, choice, (*stacked,), None, places, cores, items=len(jobs))
        product.verify_operands()
        product.keep_operands()
        for job, place in enumerate(places):
            name = fresh_name()
            with bench.store.create(dtype, shape, owner="ada", ttl_s=60, name=name, place=place) as writer:
                product.store_item(job, writer)
                if writer.digest != product.item_digests[job]:
                    raise VerificationFailed
                info = writer.commit()
            np.testing.assert_array_equal(bench.get(info), multiply(problem, *sent[job]))
            bench.store.delete(name, owner="ada")
        assert product.measured.d2h_ms > 0
    return "right"


def _numbers(problem: Problem, name: str, job: int) -> Array:
    shape = (problem.m, problem.k) if name == "a" else (problem.k, problem.n)
    return numbers(shape, problem.dtype, 100 + 2 * job + (name == "b"))


def _opened(bench: StoreBench, info: Any, *, named: bool) -> StoredOperand:
    """It says when it is opened."""

    def opened() -> StoredMatrix:
        calls.append("open")
        with bench.store.open(info.id, info.dtype, info.shape) as stored:
            return stored

    return StoredOperand(info.shape, opened, info.id if named else None)
