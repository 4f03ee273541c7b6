"""The way of matrices between the store and a GPU, without a GPU.

`python -m tests.support.workers.played_cuda REDIS_URL PREFIX DIRECTORY` reads cases as JSON lines, and prints for each
what came of it, what the driver was asked for, and how many slots are registered then.

CuPy is replaced, so this is for a process of its own. Memory of the device is memory of this process, copies are done
at once, digests are taken by Python. The product itself is numpy's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import structlog

from jobs.errors import MatmulError, VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.digest import digest_of
from jobs.matrices.interface import MatrixInfo, StoredMatrix
from kernels.catalog import CATALOG
from kernels.model.numerics import DTYPES, Problem
from kernels.selection.candidates import Choice
from tests.support.kernels.played_complex import (
    by_library,
    has_clear_padding,
    multiply_complex,
    rows_of,
)
from tests.support.played.driver import Compiler, calls, faults, install
from tests.support.played.stacks import play_stacked
from tests.support.stores import StoreBench, fresh_name, make_bench, numbers
from worker.check.views.as_real import real_view
from worker.cpu.blas import multiply
from worker.device.operands import HostOperand, StoredOperand
from worker.device.runner import Epilogue


class Way:
    """Products go it as in `worker/product/multiply.py`."""

    def __init__(self, bench: StoreBench, runner: Any) -> None:
        self._bench, self._runner = bench, runner
        self._uploaded: dict[tuple[Any, ...], MatrixInfo] = {}
        self.is_by_library = False
        self.launches = 1  # of one product

    def go(self, problem: Problem, case: dict[str, Any]) -> str:
        self.is_by_library = "library" in case
        if self.is_by_library:
            return self.by_library(problem, infinite=case["library"] == "infinite")
        self.launches = case.get("launches", 1)
        if case.get("jobs"):
            return play_stacked(self._bench, self._runner, problem, case)
        if case.get("inline"):
            return self.inline(problem, has_c=case.get("c", False))
        if case.get("bias"):
            return self.finished(problem, case["bias"])
        if case.get("c"):
            return self.accumulated(problem)
        if case.get("chain"):
            return self.chain(problem)
        return self.product(problem, is_square=case.get("square", False))

    def chain(self, problem: Problem) -> str:
        """A·B, for which a job waits, and that times B; what is asked for by the second is told."""
        sent = numbers((problem.m, problem.k), problem.dtype), numbers((problem.k, problem.n), problem.dtype, 1)
        a, b = (self._operand(array, problem) for array in sent)
        first = self._computed(problem, a, b)
        self._runner.product_ended(first.id, awaited=True)
        calls.clear()
        second = self._computed(problem, self._opened(first), b)
        expected = multiply(problem, multiply(problem, *sent), sent[1])
        np.testing.assert_array_equal(self._bench.get(second), expected)
        return "right"

    def accumulated(self, problem: Problem) -> str:
        """2·A·B - 3·C."""
        sent = numbers((problem.m, problem.k), problem.dtype), numbers((problem.k, problem.n), problem.dtype, 1)
        added = numbers(problem.product_shape, problem.product_dtype, 2)
        a, b, c = (self._operand(array, problem) for array in (*sent, added))
        calls.clear()
        info = self._computed(problem, a, b, Epilogue(2.0, -3.0, c))
        np.testing.assert_array_equal(self._bench.get(info), 2 * multiply(problem, *sent) - 3 * added)
        self._bench.store.delete(info.id, owner="ada")
        return "right"

    def finished(self, problem: Problem, of_bias: tuple[int, int]) -> str:
        """max(A·B + bias, 0) in 16 bits, which the next product takes as an operand from the device."""
        sent = numbers((problem.m, problem.k), problem.dtype), numbers((problem.k, problem.n), problem.dtype, 1)
        added = numbers(of_bias, problem.product_dtype, 2)
        a, b, bias = (self._operand(array, problem) for array in (*sent, added))
        calls.clear()
        info = self._computed(problem, a, b, Epilogue(1.0, 0.0, None, bias, "relu", "float16"))
        expected = np.maximum(multiply(problem, *sent) + added, 0).astype(np.float16)
        np.testing.assert_array_equal(self._bench.get(info), expected)
        self._runner.product_ended(info.id, awaited=True)
        kept = self._runner.cache.get(info.id)
        assert kept is not None and kept.copy.layout.dtype == "float16"
        return "right"

    def by_library(self, problem: Problem, *, infinite: bool) -> str:
        """Whose own product has NaN where one part of an element is infinite."""
        sent = numbers((problem.m, problem.k), problem.dtype, 3), numbers((problem.k, problem.n), problem.dtype, 4)
        if infinite:
            sent[0][5] = np.inf
        a, b = (self._operand(array, problem) for array in sent)
        calls.clear()
        info = self._computed(problem, a, b)
        with np.errstate(all="ignore"):
            expected = multiply(problem, *sent)
        np.testing.assert_array_equal(real_view(self._bench.get(info)), real_view(expected))
        self._bench.store.delete(info.id, owner="ada")
        return "right"

    def inline(self, problem: Problem, *, has_c: bool) -> str:
        """Operands that came with the job; with C, 2·A·B - 3·C."""
        from worker.cuda.gpu.cores import DeviceCores

        items = (problem.batch,) if problem.batch > 1 else ()
        of_a, of_b = (*items, problem.m, problem.k), (*items, problem.k, problem.n)
        sent = numbers(of_a, problem.dtype), numbers(of_b, problem.dtype, 1)
        added = numbers(problem.product_shape, problem.product_dtype, 2)
        a, b, c = (HostOperand(each, digest=digest_of(each)) for each in (*sent, added))
        kernel = next(each for each in CATALOG if problem.dtype in each.accuracy)
        calls.clear()
        product = self._runner._compute(
            problem,
            Choice(kernel, {}, "It was asked for."),
            (a, b),
            Epilogue(2.0, -3.0, c) if has_c else None,
            [None],
            DeviceCores().request(),
        )
        if product.wrong_elements():
            raise VerificationFailed
        product.verify_operands()
        expected = multiply(problem, *sent)
        if has_c:
            expected = 2 * expected - 3 * added
        data = b"".join(bytes(each) for each in product.chunks())
        assert data == np.ascontiguousarray(expected).tobytes()
        assert product.digest == digest_of(data)
        return "right"

    def product(self, problem: Problem, *, is_square: bool) -> str:
        """`is_square`: of a matrix with itself."""
        seed = 0 if is_square else 1
        of_a, of_b = (problem.m, problem.k), (problem.k, problem.n)
        of_a, of_b = of_a[::-1] if problem.transpose_a else of_a, of_b[::-1] if problem.transpose_b else of_b
        sent = numbers(of_a, problem.dtype), numbers(of_b, problem.dtype, seed)
        a, b = (self._operand(array, problem) for array in sent)
        calls.clear()
        info = self._computed(problem, a, b)
        np.testing.assert_array_equal(self._bench.get(info), multiply(problem, *sent))
        self._bench.store.delete(info.id, owner="ada")
        return "right"

    def _computed(
        self, problem: Problem, a: StoredOperand, b: StoredOperand, epilogue: Epilogue | None = None
    ) -> MatrixInfo:
        store, shape = self._bench.store, problem.product_shape
        dtype = problem.product_dtype if epilogue is None else epilogue.output_of(problem)
        with store.place(dtype, shape) as place:
            from worker.cuda.gpu.cores import DeviceCores

            device_lock = DeviceCores().request()
            kernel = next(each for each in CATALOG if problem.dtype in each.accuracy)
            product = self._runner._compute(
                problem, Choice(kernel, {}, "It was asked for."), (a, b), epilogue, [place], device_lock
            )
            if product.wrong_elements():
                raise VerificationFailed
            product.verify_operands()
            product.keep_operands()
            name = fresh_name()
            with store.create(dtype, shape, owner="ada", ttl_s=60, name=name, place=place) as writer:
                product.store(writer)
                if writer.digest != product.digest:
                    raise VerificationFailed
                info = writer.commit()
            product.offer(name)
            return info

    def _operand(self, array: Array, problem: Problem) -> StoredOperand:
        key = (array.tobytes(), array.shape, problem.dtype)
        if key not in self._uploaded:
            self._uploaded[key] = self._bench.put(array)
        return self._opened(self._uploaded[key])

    def _opened(self, info: MatrixInfo) -> StoredOperand:
        """It says when it is opened."""

        def opened() -> StoredMatrix:
            calls.append("open")
            with self._bench.store.open(info.id, info.dtype, info.shape) as stored:
                return stored

        return StoredOperand(info.shape, opened, info.id)


def launched(problem: Problem, matrices: Any, epilogue: Any, *, is_last: bool) -> None:
    """A product by numpy; of zeros, where another launch follows."""
    assert all(map(has_clear_padding, matrices[:2]))
    of_a, of_b, of_c = (rows_of(matrix) for matrix in matrices)
    of_c[:] = multiply(problem, *([of_a, of_b] if is_last else [of_a * 0, of_b * 0]))
    if epilogue is not None:
        epilogue.launch()


class PlayedMultiplier:
    """In place of `Multiplier`. There is no check here, so nothing is prepared for one meanwhile; but blocks that it
    would read are."""

    way: Way

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler

    def kernel_ms(self, problem: Problem, _: Choice, matrices: Any, **given: Any) -> float:
        from worker.cuda.products.small import SmallProduct

        if self.way.is_by_library:
            return by_library(self._compiler, problem, matrices, calls)
        if DTYPES[problem.dtype].is_complex:
            multiply_complex(self._compiler, problem, matrices, calls)
            return 1.0
        meanwhile = given["meanwhile"]
        is_small = isinstance(getattr(meanwhile, "__self__", None), SmallProduct)
        for left in reversed(range(self.way.launches)):
            launched(problem, matrices, given["epilogue"], is_last=not left)
            if is_small:
                meanwhile()
        return 1.0


def main() -> None:
    runtime = install()
    from worker.cuda.digests import copy_back, read_back
    from worker.cuda.gpu.page_locks import PageLocks
    from worker.cuda.gpu.streams import OfThread
    from worker.cuda.operand_cache import OfferedProducts, OperandCache
    from worker.cuda.runner import CudaRunner

    compiler = Compiler()
    multiplier = PlayedMultiplier(compiler)

    class PlayedRunner(CudaRunner):
        def __init__(self) -> None:
            self.compiler, self._of_thread = compiler, OfThread()  # type: ignore[assignment]  # as one
            self.cache = OperandCache(1 << 30)
            self._offered = OfferedProducts(self.cache)
            self._page_locks = PageLocks(runtime)
            self._fusing = MagicMock(find=lambda *_: None)
            self._multiplier = multiplier  # type: ignore[assignment]  # as one

        def _admit(self, *_: Any, **__: Any) -> None:
            """It fits."""

    read_back.PARTS = 2048  # pieces that a test has room for
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    url, prefix, directory = sys.argv[1:]
    way = Way(make_bench("slots", url, prefix, Path(directory)), PlayedRunner())
    multiplier.way = way
    for line in sys.stdin:
        case = json.loads(line)
        copy_back.DIGESTED_HERE_BYTES = 1 << 20 if case.get("here") else 0  # what is large is smaller here
        faults.update(dict.fromkeys(case.get("faults", ()), True))
        try:
            problem = Problem(**case["problem"])
            outcome = way.go(problem, case)
        except MatmulError as error:
            outcome = type(error).__name__
        faults.clear()
        print(json.dumps([outcome, calls, len(runtime.registered)]), flush=True)


if __name__ == "__main__":
    main()
