"""One device's share of a product in tiles: panels up, kernel, check and tile down, each on a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import cupy
import numpy as np

from jobs.models import Verification
from kernels.model.host_library import HostLibraryKernel
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.plan import PLACES, Side, Tile
from worker.check.verify import NOT_CHECKED, check
from worker.cuda.memory import DeviceMatrix, StopWatch
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.tiles.checked import checkable
from worker.cuda.tiles.epilogue import TileEpilogue
from worker.cuda.tiles.fingerprints import launch_fingerprint, part_of_panel
from worker.cuda.tiles.gpus import Gpu
from worker.cuda.tiles.host import HostMemory, Part, copy_tile, panel_part
from worker.cuda.tiles.panels import Panel, Panels, Shared
from worker.cuda.tiles.rereading import Rereading
from worker.cuda.tiles.rereads import Block, Reread
from worker.device.tiles import CheckedTile, TiledTask, TileRecord

SIDES: tuple[Side, Side] = ("a", "b")
ADDEND = 3  # of a tile's fingerprints, after its own and those of its panels


@dataclass(slots=True)
class _Down:
    """A tile on its way to the product's memory."""

    checked: CheckedTile
    is_there: Any  # an event


class Lane:
    """For one thread, in the context of its device and of a stream that computes."""

    def __init__(
        self,
        gpu: Gpu,
        task: TiledTask,
        tiles: Sequence[Tile],
        operands: dict[Side, HostMemory],
        wanted: Callable[[], None],
        shared: Shared | None = None,
    ) -> None:
        """`wanted` is called between tiles; what it raises ends the lane. `shared`: all lanes need the inner panels."""
        self._gpu, self._task, self._tiles, self._operands, self._wanted = gpu, task, tiles, operands, wanted
        self._up, self._down = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
        self._is_there = isinstance(task.choice.kernel, HostLibraryKernel)  # A·B, in the product's memory
        largest = task.plan.largest.problem(task.problem)
        self._out = HostMemory(task.out, largest.product_dtype)
        inner: Side = "b" if task.plan.outer == "a" else "a"
        self._panels = {side: self._places_of(side, shared if side == inner else None) for side in SIDES}
        bytes_of_tile, epilogue = product_layout(largest).bytes, task.epilogue
        self._epilogue = TileEpilogue(gpu.compiler, epilogue, task, self._up, bytes_of_tile) if epilogue else None
        self._places = [cupy.cuda.alloc(max(bytes_of_tile, 1)) for _ in range(PLACES)]
        self._are_free = [cupy.cuda.Event(disable_timing=True) for _ in range(PLACES)]
        self._on_its_way: _Down | None = None
        self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        self.back = StopWatch()
        self._reading: Rereading

    def _places_of(self, side: Side, shared: Shared | None) -> Panels:
        memory = self._operands[side]
        parts = {panel_part(self._task.problem, tile, side, memory).shape for tile in self._task.plan.tiles()}
        largest = max(_operand_bytes(memory, shape) for shape in parts)
        return Panels(memory, largest, self._up, shared)

    @property
    def h2d_ms(self) -> float:
        of_addend = self._epilogue.h2d_ms if self._epilogue is not None else 0.0
        return sum(panels.watch.total_ms() for panels in self._panels.values()) + of_addend

    def run(
        self,
        rereads: Sequence[Reread],
        places: int,
        is_done: Callable[[Block], bool],
        emit: Callable[[CheckedTile], None],
    ) -> None:
        """All tiles, each handed to `emit` once it lies in the product's memory. `rereads`: of the operands and,
        last, the product, with places for so many blocks; `is_done`: whether all rows of a block of that lie there."""
        self._product = len(rereads) - 1
        self._reading = Rereading(self._gpu.compiler, rereads, self._task.seed, self._up, places)
        quota = [-(-len(each.waiting) // max(1, self._task.plan.count)) for each in rereads]
        coming = [(tile, *following) for tile, following in zip(self._tiles, self._following(), strict=True)]
        for number, (tile, beside, left) in enumerate(coming):
            self._wanted()
            panels = self._brought(tile)
            launched = self._launched(tile, panels, number % PLACES)
            self._prefetch(number, panels, beside, left)
            for operand in range(self._product):
                for _ in range(quota[operand]):
                    self._reading.one(operand)
            for _ in range(quota[self._product] + 1):
                self._reading.one(self._product, is_done)
            checked = launched()
            self._bring_back(checked, number % PLACES, emit)
        self._arrived(emit)
        while any(self._reading.one(operand) for operand in range(self._product)):
            self._wanted()

    def _following(self) -> list[tuple[Tile | None, int]]:
        """Of each tile, the first one of the next outer panel, and how many tiles there are until then."""
        groups = [list(group) for _, group in groupby(self._tiles, self._outer)]
        firsts: list[Tile | None] = [*(group[0] for group in groups[1:]), None]
        pairs = list(zip(groups, firsts[: len(groups)], strict=True))
        return [(first, len(group) - place) for group, first in pairs for place in range(len(group))]

    def _outer(self, tile: Tile) -> object:
        return tile.panel(self._task.plan.outer, self._task.problem)

    def _part(self, tile: Tile, side: Side) -> Part:
        return panel_part(self._task.problem, tile, side, self._operands[side])

    # ---- up ----
    def _brought(self, tile: Tile) -> dict[Side, Panel]:
        """Its panels, all of whose copies are on the stream."""
        found: dict[Side, Panel] = {}
        for side in SIDES:
            found[side] = self._panels[side].begin(self._part(tile, side))
            self._panels[side].advance(found[side])
            cupy.cuda.get_current_stream().wait_event(found[side].is_there)
        if self._epilogue is not None:
            self._epilogue.begin(tile)
        return found

    def _prefetch(self, number: int, used: dict[Side, Panel], next_outer: Tile | None, left: int) -> None:
        """The next tile's panels, and a share of the next outer panel: it is there when it is needed, and delays none
        of the inner ones by more than that share."""
        outer = self._task.plan.outer
        inner: Side = "b" if outer == "a" else "a"
        if number + 1 < len(self._tiles):
            following = self._panels[inner].begin(self._part(self._tiles[number + 1], inner), used[inner])
            self._panels[inner].advance(following)
            if self._epilogue is not None:
                self._epilogue.prefetch(self._tiles[number + 1])
        if next_outer is not None:
            panel = self._panels[outer].begin(self._part(next_outer, outer), used[outer])
            self._panels[outer].advance(panel, 1 / left)

    # ---- kernel and check ----
    def _launched(self, tile: Tile, panels: dict[Side, Panel], place: int) -> Callable[[], CheckedTile]:
        """Puts kernel, fingerprints and all on the stream; what is given back checks the tile, and waits for it."""
        task, stream = self._task, cupy.cuda.get_current_stream()
        problem = tile.problem(task.problem)
        p = d = DeviceMatrix(product_layout(problem), self._places[place])
        a, b, epilogue = panels["a"], panels["b"], None
        if self._epilogue is not None:
            p = self._epilogue.product(d.layout)
            epilogue = self._epilogue.on_device(p, d)
        stream.wait_event(self._are_free[place])
        if not task.checked or p.layout.in_groups:
            p.memory.memset_async(0, p.layout.bytes)
        self._start.record()
        self._multiply(tile, problem, a.matrix, b.matrix, p)
        if epilogue is not None:
            epilogue.launch()
        self._end.record()
        totals = cupy.zeros(4, np.uint64)
        seed, compiler = task.seed, self._gpu.compiler
        first_row = tile.items.start * task.problem.m + tile.rows.start
        whole = part_of_panel(d.address, d.layout, task.problem.m, first_row, tile.columns.start)
        launch_fingerprint(compiler, whole, seed, totals.data.ptr)
        for number, side in enumerate(SIDES, 1):
            if panels[side].fingerprint is None:
                self._fingerprint(panels[side], self._operands[side], totals.data.ptr + 8 * number)
        added, addend = (None, None) if self._epilogue is None else (self._epilogue.panel, self._epilogue.memory)
        if added is not None and addend is not None and added.fingerprint is None:
            self._fingerprint(added, addend, totals.data.ptr + 8 * ADDEND)

        def checked() -> CheckedTile:
            verification = self._checked(problem, a, b, p) if task.checked else NOT_CHECKED
            wrong = epilogue.wrong_elements() if epilogue is not None and task.checked else 0
            found = [int(value) for value in totals.get()]
            for number, panel in enumerate((a, b) if added is None else (a, b, added), 1):
                panel.fingerprint = found[number] if panel.fingerprint is None else panel.fingerprint
                panel.is_used.record(stream)
            record = TileRecord(
                tile=tile.number,
                residual=_ratio(verification),
                fingerprint=found[0],
                a=a.fingerprint or 0,
                b=b.fingerprint or 0,
                c=0 if added is None else added.fingerprint or 0,
                kernel_ms=0.0 if self._is_there else float(cupy.cuda.get_elapsed_time(self._start, self._end)),
            )
            return CheckedTile(tile, verification, record, wrong)

        return checked

    def _multiply(self, tile: Tile, problem: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        """Or brings it, where a library multiplied the whole. A complex tile goes as a real product, by a library too:
        whether one of its own was spoilt by an infinity is known once it is there, and by then the next panels are to
        be on their way."""
        kernel, gpu = self._task.choice.kernel, self._gpu
        if self._is_there:
            copy_tile(self._out, tile, c, to_device=True)
        elif DTYPES[problem.dtype].is_complex:
            gpu.composed.launcher(self._task.choice, problem, (a, b, c))()
        elif isinstance(kernel, CudaKernel):
            gpu.prepared.get(kernel, self._task.choice.config, problem).launch(a, b, c)
        else:
            gpu.cublas.multiply(kernel.name, problem, a, b, c, self._task.choice.config)

    def _fingerprint(self, panel: Panel, memory: HostMemory, total: int) -> None:
        part = panel.part
        row = part.items.start * memory.rows + part.rows.start
        lies = part_of_panel(panel.matrix.address, panel.matrix.layout, memory.rows, row, part.columns.start)
        launch_fingerprint(self._gpu.compiler, lies, self._task.seed, total)

    def _checked(self, problem: Problem, a: Panel, b: Panel, c: DeviceMatrix) -> Verification:
        memories = self._operands["a"], self._operands["b"]
        product = checkable(self._gpu.compiler, problem, (a, b), memories, c)
        return check(problem, self._task.choice.kernel.accuracy[problem.dtype], product, np.random.default_rng())

    # ---- down ----
    def _bring_back(self, checked: CheckedTile, place: int, emit: Callable[[CheckedTile], None]) -> None:
        """Starts the copy of a tile, and hands over the one before."""
        if checked.is_wrong:
            emit(checked)
            return
        tile = checked.tile
        problem = tile.problem(self._task.problem)
        c = DeviceMatrix(product_layout(problem), self._places[place])
        with self._down, self.back:
            if not self._is_there or self._epilogue is not None:
                copy_tile(self._out, tile, c, to_device=False)
        self._are_free[place].record(self._down)
        self._arrived(emit)
        self._on_its_way = _Down(checked, self._are_free[place])

    def _arrived(self, emit: Callable[[CheckedTile], None]) -> None:
        if self._on_its_way is not None:
            self._on_its_way.is_there.synchronize()
            emit(self._on_its_way.checked)
            self._on_its_way = None

    # ---- the end ----
    def finish(self, wanted: Callable[[], None]) -> None:
        """Reads what is left of the product, once all devices' tiles lie in its memory. For any thread, after `run`."""
        while self._reading.one(self._product):
            wanted()
        self.end()

    def end(self) -> None:
        """Hands over what was read once more."""
        self._reading.end()

    def free(self) -> None:
        """What only tiles need."""
        self._panels.clear()
        if self._epilogue is not None:
            self._epilogue.free()
        self._places.clear()

    def synchronize(self) -> None:
        """Nothing may still be copied when memory is given back."""
        for stream in (self._up, self._down, cupy.cuda.get_current_stream()):
            stream.synchronize()


def _operand_bytes(memory: HostMemory, shape: tuple[int, int, int]) -> int:
    return operand_layout(memory.dtype, shape).bytes


def _ratio(verification: Verification) -> float:
    """0 where nothing was compared, or nothing may be off."""
    if verification.residual is None or not verification.threshold:
        return 0.0
    return verification.residual / verification.threshold
