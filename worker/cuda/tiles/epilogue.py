"""alpha·P + beta·C of tiles on one device: parts of C come as panels do, and A·B has a place of its own."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from kernels.model.numerics import Problem
from kernels.tiles.plan import Tile
from worker.cuda.compile import Compiler
from worker.cuda.epilogue.on_device import EpilogueOnDevice
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import Layout, operand_layout
from worker.cuda.tiles.host import HostMemory, Part
from worker.cuda.tiles.panels import Panel, Panels
from worker.device.runner import Epilogue
from worker.device.tiles import TiledTask


def addend_memory(epilogue: Epilogue | None, problem: Problem) -> HostMemory | None:
    """C; None where nothing is added."""
    if epilogue is None or epilogue.c is None:
        return None
    array = epilogue.c.elements
    return HostMemory(array if array.ndim == 3 else array[np.newaxis], problem.product_dtype)


def addend_part(tile: Tile, memory: HostMemory) -> Part:
    """A tile's part of C."""
    return Part(tile.items_of(memory.array.shape[0]), tile.rows, tile.columns)


class TileEpilogue:
    """The epilogue of tiles, for the thread of a lane. `up` is the stream of copies to the device, `max_bytes` the size
    of the largest tile."""

    def __init__(self, compiler: Compiler, epilogue: Epilogue, task: TiledTask, up: Any, max_bytes: int) -> None:
        self._compiler, self._epilogue = compiler, epilogue
        self._p = cupy.cuda.alloc(max(max_bytes, 1))
        self.memory = addend_memory(epilogue, task.problem)
        self.panel: Panel | None = None  # of the tile that is computed
        self._panels: Panels | None = None
        if self.memory is not None:
            parts = {addend_part(tile, self.memory).shape for tile in task.plan.tiles()}
            self._panels = Panels(self.memory, max(operand_layout(self.memory.dtype, part).bytes for part in parts), up)

    @property
    def h2d_ms(self) -> float:
        return self._panels.watch.total_ms() if self._panels is not None else 0.0

    def product(self, layout: Layout) -> DeviceMatrix:
        """The place for A·B."""
        return DeviceMatrix(layout, self._p)

    def begin(self, tile: Tile) -> None:
        """The tile is computed next on the current stream."""
        self.panel = self._brought(tile)
        if self.panel is not None:
            cupy.cuda.get_current_stream().wait_event(self.panel.is_there)

    def prefetch(self, tile: Tile) -> None:
        """Copies C's part for the tile that comes next."""
        self._brought(tile)

    def _brought(self, tile: Tile) -> Panel | None:
        if self._panels is None or self.memory is None:
            return None
        panel = self._panels.begin(addend_part(tile, self.memory), self.panel)
        self._panels.advance(panel)
        return panel

    def on_device(self, p: DeviceMatrix, d: DeviceMatrix) -> EpilogueOnDevice:
        """The epilogue of the tile that was begun, ready to be launched."""
        c = None if self.panel is None else self.panel.matrix
        made = EpilogueOnDevice(self._compiler, self._epilogue.alpha, self._epilogue.beta, p, c, d)
        made.load()
        return made

    def free(self) -> None:
        """Frees what only tiles need."""
        self.panel = self._panels = self._p = None
