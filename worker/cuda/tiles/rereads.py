"""Reads stored bytes once more, in order: operands, to compare what was multiplied with what was sent, and the product,
to compare its memory with what was checked.

Digests need stored bytes in their order, and panels of columns are not that. So each matrix passes a device once more,
in blocks of whole parts, while tiles are computed. There its digests are taken, and each of its panels' fingerprint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from jobs.formats.elements import Array
from jobs.matrices.digest import PART, as_bytes, digest_of_parts, part_begin, part_count, part_digests
from kernels.tiles.plan import Span
from worker.check.fingerprint import MASK
from worker.cuda.digests.plan import MIN_DIGESTED_BYTES
from worker.cuda.tiles.host import HostMemory, Part

BLOCK_PARTS = 1 << 14  # of 16 KiB, at most


class Rectangle(NamedTuple):
    """Rows and columns of a stored matrix; rows are counted through its batch."""

    rows: Span
    columns: Span

    def within(self, other: Rectangle) -> Rectangle | None:
        rows = Span(max(self.rows.start, other.rows.start), min(self.rows.stop, other.rows.stop))
        columns = Span(max(self.columns.start, other.columns.start), min(self.columns.stop, other.columns.stop))
        return Rectangle(rows, columns) if rows.size > 0 and columns.size > 0 else None


class Block(NamedTuple):
    """Whole parts of a matrix, in bytes."""

    part: int  # the first
    parts: int
    begin: int
    end: int


@dataclass(slots=True)
class Reread:
    """The second reading of one matrix, by several devices. `panels`: those whose fingerprints are needed.
    `from_panels`: each panel consists of whole parts, so a device reads the panel that it has for the multiplication;
    blocks of the host's memory are read only for panels that no device had."""

    memory: HostMemory
    panels: Sequence[Part]
    block_parts: int = BLOCK_PARTS
    from_panels: bool = False
    waiting: deque[Block] = field(default_factory=deque)
    _digests: Array = field(init=False)  # of all parts
    _fingerprints: dict[int, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        size = self.memory.bytes
        wholes = [self._whole(panel) for panel in self.panels] if self.from_panels else [range(part_count(size))]
        for whole in wholes:
            self.waiting += [
                self._block(part, min(part + self.block_parts, whole.stop)) for part in whole[:: self.block_parts]
            ]
        self._digests = np.zeros(part_count(size), np.uint64)

    def _block(self, first: int, stop: int) -> Block:
        return Block(first, stop - first, first * PART, part_begin(stop, self.memory.bytes))

    def _whole(self, panel: Part) -> range:
        """The parts of a panel that has nothing else."""
        rows, row_bytes, size = rectangle_of(panel, self.memory).rows, self.memory.row_bytes, self.memory.bytes
        return range(
            rows.start * row_bytes // PART,
            part_count(size) if rows.stop * row_bytes == size else rows.stop * row_bytes // PART,
        )

    def rectangles(self, block: Block) -> Iterator[Rectangle]:
        """The block as at most three rectangles: the end of a row, whole rows, the beginning of one."""
        columns, itemsize = self.memory.columns, self.memory.array.itemsize
        at, end = block.begin // itemsize, block.end // itemsize
        if at % columns:
            stop = min(end, (at // columns + 1) * columns)
            yield Rectangle(Span(at // columns, at // columns + 1), Span(at % columns, at % columns + stop - at))
            at = stop
        if rows := (end - at) // columns:
            yield Rectangle(Span(at // columns, at // columns + rows), Span(0, columns))
            at += rows * columns
        if at < end:
            yield Rectangle(Span(at // columns, at // columns + 1), Span(0, end - at))

    def take(self, is_ready: Callable[[Block], bool] = lambda _: True) -> Block | None:
        """The next block that is ready. Each is given out once."""
        with self._lock:
            block = next(filter(is_ready, self.waiting), None)
            if block is not None:
                self.waiting.remove(block)
            return block

    def take_panel(self, panel: Part) -> Block | None:
        """All parts of a panel that is on a device, given out once; None if its blocks are read from the host."""
        if not self.from_panels:
            return None
        whole = self._whole(panel)
        block = self._block(whole.start, whole.stop)
        with self._lock:
            own = [each for each in self.waiting if block.begin <= each.begin < block.end]
            if sum(each.parts for each in own) < block.parts or not own:
                return None
            self.waiting = deque(each for each in self.waiting if each not in own)
            return block

    def add(self, fingerprints: Sequence[int]) -> None:
        """Adds what one device found for all panels."""
        with self._lock:
            for panel, value in enumerate(fingerprints):
                self._fingerprints[panel] = (self._fingerprints.get(panel, 0) + value) & MASK

    def add_digests(self, blocks: Sequence[Block], digests: Array) -> None:
        """Adds the digests of the parts of these blocks; `digests` has a place for every part."""
        for block in blocks:
            parts = slice(block.part, block.part + block.parts)
            self._digests[parts] = digests[parts]

    # ---- once all blocks were read ----
    @property
    def fingerprints(self) -> dict[Part, int]:
        return {panel: self._fingerprints[number] for number, panel in enumerate(self.panels)}

    def parts(self) -> bytes:
        """The digests of all parts, 8 bytes each, little-endian. A device takes none of the smallest matrices."""
        if self.memory.bytes < MIN_DIGESTED_BYTES:
            return part_digests(as_bytes(self.memory.array), 1)
        return self._digests.astype("<u8").tobytes()

    def digest(self) -> int:
        return digest_of_parts(np.frombuffer(self.parts(), "<u8"))


def are_parts(memory: HostMemory, panels: Sequence[Part]) -> bool:
    """Whether each is whole rows that follow on each other, and whole parts of the bytes that have digests."""
    starts = []
    for panel in panels:
        if panel.columns.size != memory.columns or (panel.items.size > 1 and panel.rows.size != memory.rows):
            return False
        starts.append(rectangle_of(panel, memory).rows.start * memory.row_bytes)
    return all(start % PART == 0 and start // PART < part_count(memory.bytes) for start in starts)


def rectangle_of(part: Part, memory: HostMemory) -> Rectangle:
    """A part that has several items has all rows of them."""
    first, last = part.items.start * memory.rows, (part.items.stop - 1) * memory.rows
    return Rectangle(Span(first + part.rows.start, last + part.rows.stop), part.columns)
