"""One device's share of a product in tiles: copying panels up, kernel, check, and copying tiles down, each on its own
stream. Blocks that are read once more have another: their copies wait for digests, for which panels are not to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import cupy

from kernels.tiles.plan import Side, Span, Tile, slices
from worker.cuda.memory import StopWatch
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.tiles.computing import SIDES, Computing, Launched
from worker.cuda.tiles.epilogue import TileEpilogue
from worker.cuda.tiles.gpus import Gpu
from worker.cuda.tiles.host import HostMemory, Part, copy_tile, panel_part
from worker.cuda.tiles.panels import Panels, Shared
from worker.cuda.tiles.reread_blocks import RereadBlocks
from worker.cuda.tiles.rereads import Block, Reread
from worker.device.tiles import CheckedTile, TiledTask


@dataclass(slots=True)
class _Down:
    """A tile being copied to the product's memory."""

    checked: CheckedTile
    is_there: Any  # an event


class Lane:
    """Computes the tiles of one device. For one thread, in the context of its device and of a stream that computes."""

    def __init__(
        self,
        gpu: Gpu,
        task: TiledTask,
        tiles: Sequence[Tile],
        operands: dict[Side, HostMemory],
        check_cancelled: Callable[[], None],
        shared: Shared | None = None,
    ) -> None:
        """`check_cancelled` is called between tiles; what it raises ends the lane. `shared`: all lanes need the inner
        panels."""
        self._gpu, self._task, self._tiles, self._operands = gpu, task, tiles, operands
        self._check_cancelled = check_cancelled
        self._up, self._again, self._down = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))
        largest, epilogue = task.plan.largest.problem(task.problem), task.epilogue
        self._out = HostMemory(task.out, largest.product_dtype)
        self._panels = {side: self._places_of(side, shared if side == task.plan.inner else None) for side in SIDES}
        of_tile = product_layout(largest).bytes
        self._epilogue = TileEpilogue(gpu.compiler, epilogue, task, self._up, of_tile) if epilogue else None
        self._computing = Computing(gpu, task, operands, self._out, self._epilogue)
        self._on_its_way: _Down | None = None
        self.back = StopWatch()
        self._reading: RereadBlocks

    def _places_of(self, side: Side, shared: Shared | None) -> Panels:
        memory, number = self._operands[side], SIDES.index(side)
        parts = {panel_part(self._task.problem, tile, side, memory).shape for tile in self._task.plan.tiles()}
        largest = max(operand_layout(memory.dtype, shape).bytes for shape in parts)
        return Panels(memory, largest, self._up, shared, lambda panel: self._reading.of_panel(number, panel))

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
        """Computes all tiles and hands each to `emit` once it is in the product's memory. `rereads`: those of the
        operands and, last, of the product, with room for `places` blocks; `is_done`: whether all rows of a block of the
        product are there."""
        self._product = len(rereads) - 1
        self._reading = RereadBlocks(self._gpu.compiler, rereads, self._task.seed, self._again, places)
        count = max(1, self._task.plan.count)
        quota = [0 if each.from_panels else -(-len(each.waiting) // count) for each in rereads]
        coming = self._following()
        launched = [self._launched(0)] if self._tiles else []
        for number in range(len(self._tiles)):
            self._check_cancelled()
            tile = launched.pop()
            self._prefetch(number, tile, *coming[number])
            self._let_pass()
            for operand in range(self._product):
                for _ in range(quota[operand]):
                    self._reading.one(operand)
            for _ in range(quota[self._product] + 1):
                self._reading.one(self._product, is_done)
            checked = self._computing.checked(tile, partial(self._go_on, launched, number + 1))
            self._bring_back(checked, number, emit)
        self._arrived(emit)
        while any(self._reading.one(operand) for operand in range(self._product)):
            self._check_cancelled()

    def _go_on(self, launched: list[Launched], number: int) -> None:
        """The next tile, right behind the check of the one before."""
        if number < len(self._tiles):
            launched.append(self._launched(number))

    def _following(self) -> list[tuple[Tile | None, int]]:
        """For each tile, the first tile of the next outer panel, and the number of tiles until then."""
        groups = [list(group) for _, group in groupby(self._tiles, self._outer)]
        firsts: list[Tile | None] = [*(group[0] for group in groups[1:]), None]
        pairs = list(zip(groups, firsts[: len(groups)], strict=True))
        return [(first, len(group) - place) for group, first in pairs for place in range(len(group))]

    def _outer(self, tile: Tile) -> object:
        return tile.panel(self._task.plan.outer, self._task.problem)

    def _part(self, tile: Tile, side: Side) -> Part:
        return panel_part(self._task.problem, tile, side, self._operands[side])

    # ---- up ----
    def _launched(self, number: int) -> Launched:
        """The tile's panels, all of whose copies are on the stream, and its kernel behind them. A first tile is
        computed slice by slice, as rows of its outer panel come."""
        tile, plan = self._tiles[number], self._task.plan
        stream, panels = cupy.cuda.get_current_stream(), self._panels
        found = {side: panels[side].begin(self._part(tile, side)) for side in SIDES}
        panels[plan.inner].advance(found[plan.inner])
        stream.wait_event(found[plan.inner].is_there)
        if self._epilogue is not None:
            self._epilogue.begin(tile)
        outer = found[plan.outer]
        if number == 0 and len(cut := slices(plan, tile)) > 1:
            rows = [(span, panels[plan.outer].advance_to(outer, span.stop)) for span in cut]
        else:
            panels[plan.outer].advance(outer)
            rows = [(Span(0, tile.rows.size), outer.is_there)]
        return self._computing.launch(tile, found, number, rows)

    def _prefetch(self, number: int, used: Launched, next_outer: Tile | None, left: int) -> None:
        """The next tile's panels, and a share of the next outer panel: it is there when it is needed, and delays none
        of the inner ones by more than that share."""
        plan = self._task.plan
        panels = dict(zip(SIDES, used.panels, strict=False))
        if number + 1 < len(self._tiles):
            part = self._part(self._tiles[number + 1], plan.inner)
            following = self._panels[plan.inner].begin(part, panels[plan.inner])
            self._panels[plan.inner].advance(following)
            if self._epilogue is not None:
                self._epilogue.prefetch(self._tiles[number + 1])
        if next_outer is not None:
            panel = self._panels[plan.outer].begin(self._part(next_outer, plan.outer), panels[plan.outer])
            self._panels[plan.outer].advance(panel, 1 / left)

    def _let_pass(self) -> None:
        """Blocks that are read once more from now on come behind the panels that are on the stream so far."""
        panels = cupy.cuda.Event(disable_timing=True)
        panels.record(self._up)
        self._again.wait_event(panels)

    # ---- down ----
    def _bring_back(self, checked: CheckedTile, number: int, emit: Callable[[CheckedTile], None]) -> None:
        """Starts the copy of a tile, and hands over the one before."""
        if checked.is_wrong:
            emit(checked)
            return
        tile = checked.tile
        with self._down, self.back:
            if self._computing.is_new:
                copy_tile(self._out, tile, self._computing.product(tile, number), to_device=False)
        self._arrived(emit)
        self._on_its_way = _Down(checked, self._computing.free_place(number, self._down))

    def _arrived(self, emit: Callable[[CheckedTile], None]) -> None:
        if self._on_its_way is not None:
            self._on_its_way.is_there.synchronize()
            emit(self._on_its_way.checked)
            self._on_its_way = None

    # ---- the end ----
    def finish(self, check_cancelled: Callable[[], None]) -> None:
        """Reads the rest of the product, once all devices' tiles are in its memory. Callable from any thread after
        `run`.
        """
        while self._reading.one(self._product):
            check_cancelled()
        self.end()

    def end(self) -> None:
        """Hands over what was read once more."""
        self._reading.end()

    def free(self) -> None:
        """Frees what only tiles need."""
        self._panels.clear()
        if self._epilogue is not None:
            self._epilogue.free()
        self._computing.free()

    def synchronize(self) -> None:
        """Waits until all copies have ended, so that memory can be released."""
        for stream in (self._up, self._again, self._down, cupy.cuda.get_current_stream()):
            stream.synchronize()
