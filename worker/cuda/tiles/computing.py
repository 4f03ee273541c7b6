"""Tiles on one device's stream: kernel, fingerprints and check, with the next tile's kernel right behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import cupy
import numpy as np

from jobs.models import Verification
from kernels.model.kernel import CudaKernel
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import DTYPES, NORMWISE, Problem
from kernels.tiles.plan import PLACES, Side, Span, Tile
from worker.check.verify import NOT_CHECKED, check, wraps
from worker.cuda.memory import DeviceMatrix, StopWatch
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.results import DeviceResults
from worker.cuda.tiles.checkable_tile import checkable
from worker.cuda.tiles.epilogue import TileEpilogue
from worker.cuda.tiles.fingerprints import launch_fingerprint, panel_fingerprint, part_of_panel
from worker.cuda.tiles.gpus import Gpu
from worker.cuda.tiles.host import HostMemory, copy_tile
from worker.cuda.tiles.panels import Panel
from worker.device.tiles import CheckedTile, TiledTask, TileRecord

SIDES: tuple[Side, Side] = ("a", "b")
FINGERPRINTS = 4  # of a tile: its own, those of its panels, and of its part of C


class Launched:
    """A tile whose kernel is on the stream."""

    def __init__(
        self, tile: Tile, problem: Problem, panels: tuple[Panel, ...], product: DeviceMatrix, epilogue: Any
    ) -> None:
        """`panels`: of A, of B and, where it is added, of C. `product` is A·B."""
        self.tile, self.problem, self.panels, self.product, self.epilogue = tile, problem, panels, product, epilogue
        self.watch = StopWatch()
        self.totals: DeviceResults

    def record(self, verification: Verification) -> TileRecord:
        """Once it was checked."""
        found = [int(value) for value in self.totals.wait().view(np.uint64)]
        for number, panel in enumerate(self.panels, 1):
            panel.fingerprint = found[number] if panel.fingerprint is None else panel.fingerprint
        a, b, *added = (panel.fingerprint or 0 for panel in self.panels)
        return TileRecord(
            tile=self.tile.number,
            residual=_ratio(verification),
            fingerprint=found[0],
            a=a,
            b=b,
            c=added[0] if added else 0,
            kernel_ms=self.watch.total_ms(),
        )


class Computing:
    """Computes tiles on the current stream, alternating between two buffers. For one thread."""

    def __init__(
        self,
        gpu: Gpu,
        task: TiledTask,
        operands: dict[Side, HostMemory],
        out: HostMemory,
        epilogue: TileEpilogue | None,
    ) -> None:
        self._gpu, self._task, self._operands, self._out, self._epilogue = gpu, task, operands, out, epilogue
        self._is_there = isinstance(task.choice.kernel, HostLibraryKernel)  # A·B, in the product's memory
        largest = product_layout(task.plan.largest.problem(task.problem))
        self._places = [cupy.cuda.alloc(max(largest.bytes, 1)) for _ in range(PLACES)]
        self._are_free = [cupy.cuda.Event(disable_timing=True) for _ in range(PLACES)]
        self._goes_on_early = self._is_checked_at_once()

    def _is_checked_at_once(self) -> bool:
        """Whether the check is one launch, mostly, and needs nothing that the next tile is computed in. Another launch
        would wait for that tile's kernel."""
        task, problem = self._task, self._task.problem
        one = not wraps(problem) and task.choice.kernel.accuracy.get(problem.dtype) not in NORMWISE
        return one and task.checked and self._epilogue is None and not DTYPES[problem.dtype].is_complex

    @property
    def is_new(self) -> bool:
        """Whether the product's memory does not have the tiles yet."""
        return not self._is_there or self._epilogue is not None

    def product(self, tile: Tile, number: int) -> DeviceMatrix:
        """The place of the tile on the device; `number` counts the device's tiles."""
        return DeviceMatrix(product_layout(tile.problem(self._task.problem)), self._places[number % PLACES])

    def free_place(self, number: int, stream: Any) -> Any:
        """Once the stream is done with that tile; the event by which it is."""
        event = self._are_free[number % PLACES]
        event.record(stream)
        return event

    def launch(self, tile: Tile, panels: dict[Side, Panel], number: int, rows: Sequence[tuple[Span, Any]]) -> Launched:
        """Puts kernel and fingerprints on the stream; where a library multiplied all, a copy.
        `rows`: slices of the tile, each with the event by which its rows of A are there."""
        task, stream = self._task, cupy.cuda.get_current_stream()
        problem, d = tile.problem(task.problem), self.product(tile, number)
        epilogue, p = None, d
        added: tuple[Panel, ...] = ()
        if self._epilogue is not None:
            p = self._epilogue.product(d.layout)
            epilogue = self._epilogue.on_device(p, d)
            added = () if self._epilogue.panel is None else (self._epilogue.panel,)
        launched = Launched(tile, problem, (panels["a"], panels["b"], *added), p, epilogue)
        stream.wait_event(self._are_free[number % PLACES])
        if not task.checked or p.layout.in_groups:
            p.memory.memset_async(0, p.layout.bytes)
        for span, is_there in rows:
            stream.wait_event(is_there)
            if not self._is_there:
                multiply = self._of_rows(problem, span, panels, p)
                with launched.watch:
                    multiply()
        if self._is_there:
            copy_tile(self._out, tile, p, to_device=True)
        if epilogue is not None:
            with StopWatch() if self._is_there else launched.watch:  # of a library, its own time is what counts
                epilogue.launch()
        launched.totals = self._fingerprints(launched, d)
        return launched

    def _fingerprints(self, launched: Launched, d: DeviceMatrix) -> DeviceResults:
        """Launches the fingerprints of the tile, and of those of its panels that were not multiplied before."""
        task, tile, totals = self._task, launched.tile, cupy.zeros(FINGERPRINTS, np.uint64)
        first_row = tile.items.start * task.problem.m + tile.rows.start
        whole = part_of_panel(d.address, d.layout, task.problem.m, first_row, tile.columns.start)
        launch_fingerprint(self._gpu.compiler, whole, task.seed, totals.data.ptr)
        memories = [self._operands[side] for side in SIDES]
        if self._epilogue is not None and self._epilogue.memory is not None:
            memories.append(self._epilogue.memory)
        for number, (panel, memory) in enumerate(zip(launched.panels, memories, strict=True), 1):
            if not panel.is_fingerprinted:
                panel.is_fingerprinted = True
                to = totals.data.ptr + 8 * number
                panel_fingerprint(self._gpu.compiler, panel.matrix, panel.part, memory, task.seed, to)
        return DeviceResults(self._gpu.compiler, totals.data, 0, totals.nbytes).start()

    def _of_rows(self, problem: Problem, rows: Span, panels: dict[Side, Panel], c: DeviceMatrix) -> Callable[[], None]:
        """The kernel for those rows, compiled and loaded."""
        a, b = (panels[side].matrix for side in SIDES)
        if rows.size < problem.m:
            problem = replace(problem, m=rows.size)
            of_a, of_c = operand_layout(a.layout.dtype, (1, rows.size, problem.k)), product_layout(problem)
            a = DeviceMatrix(of_a, a.memory + rows.start * of_a.pitch_bytes)
            c = DeviceMatrix(of_c, c.memory + rows.start * of_c.pitch_bytes)
        kernel, config, gpu = self._task.choice.kernel, self._task.choice.config, self._gpu
        # A complex tile goes as a real product, by a library too: whether one of its own was spoilt by an infinity is
        # known once it is there, and by then the next panels are to be on their way.
        if DTYPES[problem.dtype].is_complex:
            return gpu.composed.launcher(self._task.choice, problem, (a, b, c))
        if isinstance(kernel, CudaKernel):
            return partial(gpu.prepared.get(kernel, config, problem).launch, a, b, c)
        return partial(gpu.cublas.multiply, kernel.name, problem, a, b, c, config)

    # ---- the check ----
    def checked(self, launched: Launched, go_on: Callable[[], None]) -> CheckedTile:
        """Waits for the tile and its check. `go_on` puts the next tile on the stream, if possible right behind the
        check, so that the device need not wait for the host to evaluate it.
        """
        after = _Once(lambda: self._end_use(launched, go_on))
        verification = NOT_CHECKED
        if self._task.checked:
            verification = self._checked(launched, after if self._goes_on_early else None)
        epilogue = launched.epilogue
        wrong = epilogue.wrong_elements() if epilogue is not None and self._task.checked else 0
        record = launched.record(verification)
        after()
        return CheckedTile(launched.tile, verification, record, wrong)

    def _end_use(self, launched: Launched, go_on: Callable[[], None]) -> None:
        """Marks the panels as read by everything that is on the stream so far, so that others may take their places."""
        for panel in launched.panels:
            panel.is_used.record(cupy.cuda.get_current_stream())
        go_on()

    def _checked(self, launched: Launched, sketched: Callable[[], None] | None) -> Verification:
        problem, (a, b, *_) = launched.problem, launched.panels
        memories = self._operands["a"], self._operands["b"]
        product = checkable(self._gpu.compiler, problem, (a, b), memories, launched.product, sketched)
        return check(problem, self._task.choice.kernel.accuracy[problem.dtype], product, np.random.default_rng())

    def free(self) -> None:
        self._places.clear()


class _Once:
    """Calls only the first time."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


def _ratio(verification: Verification) -> float:
    """0 where nothing was compared, or nothing may be off."""
    if verification.residual is None or not verification.threshold:
        return 0.0
    return verification.residual / verification.threshold
