"""A product in tiles on the CPU: each is computed and checked by itself, so that little memory is taken beside the
matrices, and what is done is kept where the process ends in the middle."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from jobs.errors import VerificationFailed
from jobs.formats.elements import Array
from jobs.matrices.digest import as_bytes, part_count, part_digests
from jobs.models import Measured
from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.estimate import Speeds
from kernels.tiles.plan import Tile, TileBytes
from worker.check.elements import core
from worker.check.fingerprint import fingerprint_of_items
from worker.check.verify import NOT_CHECKED, check
from worker.cpu.epilogue import add_epilogue
from worker.cpu.kernels import CPU_KERNELS
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, host_operands, verify_on_host, wrong_on_host
from worker.device.tiles import CheckedTile, TiledProduct, TiledTask, TileRecord, stored_part

CPU_SPEEDS = Speeds(flops=1e11, copied_bytes=1e10, memory_bytes=1e10)  # for the choice among plans alone
CHANGED = "The product changed before it was stored, so it is not kept."


def tile_bytes(problem: Problem) -> TileBytes:
    """Panels are read where they are; what is counted is what a GPU would have to copy."""
    itemsize = DTYPES[problem.dtype].itemsize
    a = problem.m * problem.k * (problem.batch if problem.a_batched else 1) * itemsize
    b = problem.k * problem.n * (problem.batch if problem.b_batched else 1) * itemsize
    return TileBytes(a, b, problem.product_bytes, beside=0)


class CpuTiledProduct(TiledProduct):
    """For one thread."""

    def __init__(self, task: TiledTask) -> None:
        self._task = task
        self._a = core(task.a.elements, transposed=False)
        self._b = core(task.b.elements, transposed=False)
        self._kernel_ms = 0.0

    def tiles(self, done: Collection[int]) -> Iterator[CheckedTile]:
        for tile in self._task.plan.tiles():
            if tile.number not in done:
                self._task.check_cancelled()
                yield self._compute(tile)

    def _compute(self, tile: Tile) -> CheckedTile:
        task = self._task
        problem = tile.problem(task.problem)
        a, b = stored_part(self._a, tile, task.problem, "a")[0], stored_part(self._b, tile, task.problem, "b")[0]
        started = time.perf_counter()
        p = CPU_KERNELS[task.choice.kernel.name](problem, a, b, None).reshape(problem.batch, problem.m, problem.n)
        epilogue = self._epilogue_of(tile)
        d = p if epilogue is None else add_epilogue(problem, epilogue, p).reshape(p.shape)
        kernel_ms = (time.perf_counter() - started) * 1e3
        self._kernel_ms += kernel_ms
        verification, wrong = NOT_CHECKED, 0
        if task.checked:
            accuracy = task.choice.kernel.accuracy[problem.dtype]
            verification = check(problem, accuracy, host_operands(problem, a, b, p), np.random.default_rng())
            wrong = wrong_on_host(problem, epilogue, p, d)
        if verification.passed is not False and not wrong:
            _part(task.out, tile)[:] = d
        record = TileRecord(
            tile=tile.number,
            residual=_ratio(verification.residual, verification.threshold),
            fingerprint=self._fingerprint(d, tile),
            a=0,
            b=0,
            kernel_ms=kernel_ms,
        )
        return CheckedTile(tile, verification, record, wrong)

    def _epilogue_of(self, tile: Tile) -> Epilogue | None:
        """The epilogue with the tile's part of C and of the bias."""
        whole = self._task.epilogue
        if whole is None or whole.c is None:
            return whole
        c = core(whole.c.elements, transposed=False)
        items = tile.items_of(len(c))
        part = c[items.start : items.stop, tile.rows.start : tile.rows.stop, tile.columns.start : tile.columns.stop]
        return Epilogue(whole.alpha, whole.beta, HostOperand(part))

    def _fingerprint(self, c: Array, tile: Tile) -> int:
        place = {"item": tile.items.start, "row": tile.rows.start, "column": tile.columns.start}
        return fingerprint_of_items(c, self._task.seed, **place, rows=self._task.problem.m)

    def finished(self, records: Mapping[int, TileRecord]) -> bytes:
        task = self._task
        addend = task.epilogue.c if task.epilogue is not None else None
        verify_on_host((task.a, task.b) if addend is None else (task.a, task.b, addend))
        for tile in task.plan.tiles():
            if self._fingerprint(_part(task.out, tile), tile) != records[tile.number].fingerprint:
                raise VerificationFailed(CHANGED)
        lies_there = as_bytes(task.out)
        return part_digests(lies_there, part_count(lies_there.nbytes))

    @property
    def measured(self) -> Measured:
        return Measured(h2d_ms=0.0, kernel_ms=self._kernel_ms, d2h_ms=0.0)


def _part(out: Array, tile: Tile) -> Array:
    of_items = out[tile.items.start : tile.items.stop]
    return of_items[:, tile.rows.start : tile.rows.stop, tile.columns.start : tile.columns.stop]


def _ratio(residual: float | None, threshold: float | None) -> float:
    """0 where nothing was compared, or nothing may be off."""
    return 0.0 if residual is None or not threshold else residual / threshold
