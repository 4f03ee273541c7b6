"""Blocks of stored bytes on one device: copied there beside the tiles' panels, digested, fingerprinted by panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from jobs.matrices.digest import PART, PART_DIGEST_BYTES, part_count
from kernels.model.numerics import DTYPES
from worker.cuda.compile import Compiler
from worker.cuda.digests.launch import launch_digests_into
from worker.cuda.digests.plan import MIN_DIGESTED_BYTES
from worker.cuda.memory import DeviceMatrix
from worker.cuda.pitch import layout
from worker.cuda.tiles.fingerprints import PartOnDevice, launch_fingerprint, panel_fingerprint
from worker.cuda.tiles.host import HostMemory
from worker.cuda.tiles.panels import Panel
from worker.cuda.tiles.rereads import BLOCK_PARTS, Block, Rectangle, Reread, rectangle_of

FIRST = -1  # priority of a stream


@dataclass(slots=True)
class _Place:
    memory: Any
    is_read: Any  # an event


class RereadBlocks:
    """Reads blocks of matrices once more, for their digests and fingerprints. For one thread. `copying` is the stream
    of the copies. Digests are computed on a stream of their own: if a kernel has all cores meanwhile, once it ends. So
    there are places for as many blocks as arrive in that time."""

    def __init__(self, compiler: Compiler, rereads: Sequence[Reread], seed: int, copying: Any, places: int) -> None:
        self._compiler, self._rereads, self._seed, self._copying = compiler, rereads, seed, copying
        self._stream = cupy.cuda.Stream(non_blocking=True, priority=FIRST)
        largest = min(max(each.memory.bytes for each in rereads), (max_parts(rereads) + 1) * PART)
        self._places = [_Place(cupy.cuda.alloc(largest), cupy.cuda.Event(disable_timing=True)) for _ in range(places)]
        self._totals = [cupy.zeros(max(1, len(each.panels)), np.uint64) for each in rereads]
        self._digests = [cupy.zeros(part_count(each.memory.bytes), np.uint64) for each in rereads]
        self._taken: list[list[Block]] = [[] for _ in rereads]
        self._panels = [[rectangle_of(panel, each.memory) for panel in each.panels] for each in rereads]
        self._count = 0

    def one(self, number: int, is_ready: Callable[[Block], bool] = lambda _: True) -> bool:
        """Reads one block of that matrix; returns whether one was left."""
        reread = self._rereads[number]
        if (block := reread.take(is_ready)) is None:
            return False
        place = self._places[self._count % len(self._places)]
        self._count += 1
        runtime, size = cupy.cuda.runtime, block.end - block.begin
        self._copying.wait_event(place.is_read)
        source = reread.memory.address + block.begin
        runtime.memcpyAsync(place.memory.ptr, source, size, runtime.memcpyHostToDevice, self._copying.ptr)
        arrived = cupy.cuda.Event(disable_timing=True)
        arrived.record(self._copying)
        with self._stream as stream:
            stream.wait_event(arrived)
            line = layout("int8", (1, size), in_groups=False, dense=True)
            if size >= MIN_DIGESTED_BYTES:
                to = self._digests[number].data.ptr + PART_DIGEST_BYTES * block.part
                launch_digests_into(self._compiler, DeviceMatrix(line, place.memory), to)
                self._taken[number].append(block)
            self._fingerprint(number, block, place.memory.ptr)
            place.is_read.record(stream)
        return True

    def of_panel(self, number: int, panel: Panel) -> None:
        """Like `one`, for a panel that is on this device, or is being copied there, unless another device has read
        it."""
        reread = self._rereads[number]
        if (block := reread.take_panel(panel.part)) is None:
            return
        place = reread.panels.index(panel.part)
        with self._stream as stream:
            stream.wait_event(panel.is_there)
            if block.end - block.begin >= MIN_DIGESTED_BYTES:
                to = self._digests[number].data.ptr + PART_DIGEST_BYTES * block.part
                launch_digests_into(self._compiler, panel.matrix, to)
                self._taken[number].append(block)
            to = self._totals[number].data.ptr + 8 * place
            panel_fingerprint(self._compiler, panel.matrix, panel.part, reread.memory, self._seed, to)
            panel.is_read.record(stream)

    def _fingerprint(self, number: int, block: Block, address: int) -> None:
        memory, totals = self._rereads[number].memory, self._totals[number].data.ptr
        for rectangle in self._rereads[number].rectangles(block):
            for panel, whole in enumerate(self._panels[number]):
                if (common := rectangle.within(whole)) is not None:
                    place = address - block.begin + common.rows.start * memory.row_bytes
                    place += common.columns.start * memory.array.itemsize
                    part = _part(place, memory, common)
                    launch_fingerprint(self._compiler, part, self._seed, totals + 8 * panel)

    def end(self) -> None:
        """Hands over what this device found. All that was put on the stream is done when this returns."""
        self._stream.synchronize()
        for number, reread in enumerate(self._rereads):
            reread.add([int(value) for value in self._totals[number].get()])
            reread.add_digests(self._taken[number], self._digests[number].get())
        self._places.clear()


def _part(address: int, memory: HostMemory, common: Rectangle) -> PartOnDevice:
    rows, columns = common
    parts = 2 if DTYPES[memory.dtype].is_complex else 1  # of an element
    width, first, pitch = (parts * each for each in (columns.size, columns.start, memory.columns))
    itemsize = memory.array.itemsize // parts
    return PartOnDevice(address, itemsize, pitch, 0, 1, rows.size, width, 0, rows.start, first)


def max_parts(rereads: Sequence[Reread]) -> int:
    return max((each.block_parts for each in rereads), default=BLOCK_PARTS)
