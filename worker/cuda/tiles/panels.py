"""An operand's panels on one device, in two buffers: one is used while the other is filled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy

from kernels.tiles.plan import PLACES
from worker.cuda.from_host.copies import Copy, pieces, start_copy
from worker.cuda.memory import DeviceMatrix, StopWatch
from worker.cuda.pitch import operand_layout
from worker.cuda.tiles.exchange import Exchange, Offer
from worker.cuda.tiles.host import HostMemory, Part, copies
from worker.cuda.tiles.padding import Zeros

PIECES = 32  # that a panel is cut into where it is copied little by little


class Panel:
    """A part of an operand in one of the places, or on its way there. `fingerprint` is known once it was multiplied."""

    def __init__(self, load: int, part: Part, matrix: DeviceMatrix, waiting: deque[Copy]) -> None:
        self.load, self.part, self.matrix = load, part, matrix
        self.waiting = waiting  # copies that are not on the stream yet
        self.is_there = cupy.cuda.Event(disable_timing=True)
        self.is_used = cupy.cuda.Event(disable_timing=True)  # recorded behind the last kernel that reads it
        self.is_read = cupy.cuda.Event(disable_timing=True)  # recorded behind its digests, where these are taken of it
        self.is_fingerprinted = False  # what finds its fingerprint is on a stream
        self.fingerprint: int | None = None


class Shared(NamedTuple):
    """Where all lanes load the same panels: `lane` and its `device`, and what to call while it waits for others."""

    exchange: Exchange
    lane: int
    device: int
    check_cancelled: Callable[[], None]

    def brings(self, load: int) -> bool:
        return self.exchange.is_brought_by(load, self.lane)


class Panels:
    """For one thread. `stream` is that of the copies. `comes` is told of each panel all of whose copies are on it."""

    def __init__(
        self,
        memory: HostMemory,
        max_bytes: int,
        stream: Any,
        shared: Shared | None = None,
        comes: Callable[[Panel], None] = lambda _: None,
    ) -> None:
        self._memory, self._stream, self._shared, self._comes = memory, stream, shared, comes
        self._blocks = [cupy.cuda.alloc(max(max_bytes, 1)) for _ in range(PLACES)]
        self._panels: list[Panel | None] = [None] * PLACES
        self._loads, self._zeros = 0, Zeros()
        self.watch = StopWatch()

    def begin(self, part: Part, beside: Panel | None = None) -> Panel:
        """The panel of that part: there, on its way, or about to be, in another place than `beside`. What was there
        must have been used for all that it is needed for, and `is_used` recorded."""
        for panel in self._panels:
            if panel is not None and panel.part == part:
                return panel
        place = next(each for each in range(PLACES) if beside is None or self._panels[each] is not beside)
        self._vacate(self._panels[place])
        layout = operand_layout(self._memory.dtype, part.shape)
        matrix = DeviceMatrix(layout, self._blocks[place])
        self._zeros.clear_padding(matrix, self._stream.ptr)
        whole = list(copies(self._memory, part, matrix))
        cut = [piece for copy in whole for piece in pieces(copy, max(1, PIECES // len(whole)))]
        panel = self._panels[place] = Panel(self._loads, part, matrix, deque(cut))
        self._loads += 1
        return panel

    def _vacate(self, before: Panel | None) -> None:
        if before is None:
            return
        self._stream.wait_event(before.is_used)
        self._stream.wait_event(before.is_read)
        if self._shared is not None and self._shared.brings(before.load):
            self._shared.exchange.wait_until_taken(before.load, self._stream, self._shared.check_cancelled)

    def advance(self, panel: Panel, share: float = 1.0) -> None:
        """Puts that share of what is left to be copied on the stream, at least one copy; all of it by default."""
        if not panel.waiting:
            return
        if self._shared is not None and not self._shared.brings(panel.load):
            self._take(panel, self._shared)
            return
        self._put(panel, max(1, round(share * len(panel.waiting))))

    def advance_to(self, panel: Panel, rows: int) -> Any:
        """Puts copies on the stream until so many rows are there, of a panel that is one matrix and not shared; the
        event by which they are."""
        left = sum(copy.height for copy in panel.waiting) - (panel.part.rows.size - rows)
        count = 0
        for copy in panel.waiting:
            if left <= 0:
                break
            left, count = left - copy.height, count + 1
        self._put(panel, count)
        there = cupy.cuda.Event(disable_timing=True)
        there.record(self._stream)
        return there

    def _put(self, panel: Panel, count: int) -> None:
        with self._stream, self.watch:
            for _ in range(count):
                start_copy(panel.waiting.popleft(), self._stream.ptr, to_device=True)
        if count and not panel.waiting:
            panel.is_there.record(self._stream)
            if self._shared is not None:
                matrix = panel.matrix
                offer = Offer(self._shared.device, matrix.address, matrix.layout.bytes, panel.is_there)
                self._shared.exchange.publish(panel.load, offer)
            self._comes(panel)

    def _take(self, panel: Panel, shared: Shared) -> None:
        """Copies the panel from the device that brings it."""
        with self._stream, self.watch:
            shared.exchange.take(panel.load, shared.device, panel.matrix.address, self._stream, shared.check_cancelled)
        panel.waiting.clear()
        panel.is_there.record(self._stream)
        self._comes(panel)
