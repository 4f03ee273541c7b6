"""A product in tiles on one GPU or several of one host: a thread for each, which has a lane of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from queue import Empty, Queue
from threading import Event, Lock, Thread

import cupy
import numpy as np

from jobs.errors import DeviceFault, OperandDamaged, VerificationFailed
from jobs.formats.elements import Array
from jobs.models import Measured
from kernels.tiles.plan import Side, Span, Tile
from worker.check.fingerprint import MASK
from worker.cuda.gpu.faults import device_faults
from worker.cuda.tiles.computing import SIDES
from worker.cuda.tiles.epilogue import addend_memory, addend_part
from worker.cuda.tiles.exchange import Exchange, enable_peers
from worker.cuda.tiles.gpus import Gpu
from worker.cuda.tiles.host import HostMemory, Part, panel_part
from worker.cuda.tiles.lane import Lane
from worker.cuda.tiles.panels import Shared
from worker.cuda.tiles.rereads import Block, Reread, are_parts
from worker.device.tiles import CheckedTile, TiledProduct, TiledTask, TileRecord

LOOK_EVERY_S = 0.05
STUCK_S, STUCK_TILES = 60.0, 20  # longest wait for a tile: so long, and so many times as long as one should take
MIN_LEARNED_S = 0.2  # of kernels, from which on their speed says what to expect of long products
CHANGED = "The product changed before it was stored, so it is not kept."


class Stopped(Exception):
    """Another device's thread failed, or the job was cancelled."""


class CudaTiledProduct(TiledProduct):
    """`tile_s`: how long a tile should take. What is read once more comes in blocks of so many parts, for as many of
    which each GPU has places. `multiply`: of a library that puts A·B into the product's memory as a whole, and says how
    many seconds that took, before it goes through the devices in tiles."""

    def __init__(
        self,
        task: TiledTask,
        gpus: Sequence[Gpu],
        tile_s: float,
        block_parts: int,
        places: int,
        multiply: Callable[[], float] | None = None,
    ) -> None:
        self._task, self._gpus, self._tile_s, self._places = task, gpus, tile_s, places
        self._multiply, self._library_s = multiply, 0.0
        a, b = (_batched(each.elements) for each in (task.a, task.b))
        dtype = task.problem.dtype
        self._operands: dict[Side, HostMemory] = {"a": HostMemory(a, dtype), "b": HostMemory(b, dtype)}
        self._out = HostMemory(task.out, task.problem.product_dtype)
        self._addend = addend_memory(task.epilogue, task.problem)
        self._rereads = [
            *(self._reread(side, block_parts) for side in SIDES),
            *(Reread(c, self._parts_of(c), block_parts) for c in (self._addend,) if c is not None),
            Reread(self._out, [_whole(self._out)], block_parts),
        ]
        self.flops_per_s: float | None = None  # of one GPU by the kernel, once all tiles of a long product are there
        self._rows_left = np.zeros(task.problem.batch * task.problem.m, np.int64)
        self._lanes: dict[int, Lane] = {}
        self._stop, self._lock = Event(), Lock()
        self._exchange: Exchange | None = None
        self._found: Queue[CheckedTile | BaseException | None] = Queue()
        self._times = Measured(h2d_ms=0.0, kernel_ms=0.0, d2h_ms=0.0)

    def _reread(self, side: Side, block_parts: int) -> Reread:
        memory, panels = self._operands[side], self._panels(side)
        return Reread(memory, panels, block_parts, from_panels=are_parts(memory, panels))

    def _panels(self, side: Side) -> list[Part]:
        parts = (panel_part(self._task.problem, tile, side, self._operands[side]) for tile in self._task.plan.tiles())
        return list(dict.fromkeys(parts))

    def _parts_of(self, addend: HostMemory) -> list[Part]:
        return list(dict.fromkeys(addend_part(tile, addend) for tile in self._task.plan.tiles()))

    # ---- tiles ----
    def tiles(self, done: Collection[int]) -> Iterator[CheckedTile]:
        if self._multiply is not None:
            assert not done, "the product is computed as a whole"
            self._library_s = self._multiply()
        for tile in self._task.plan.tiles():
            if tile.number not in done:
                self._count_rows(tile, 1)
        if len(self._gpus) > 1 and not done and self._share_inner_panels():
            self._exchange = Exchange(len(self._gpus))
        threads = [
            Thread(target=self._compute, args=(device, done), name=f"gpu {device}", daemon=True)
            for device in range(len(self._gpus))
        ]
        for thread in threads:
            thread.start()
        try:
            yield from self._as_they_come(len(threads))
        except DeviceFault:
            raise  # this process ends: a device that hangs is not waited for
        except BaseException:
            self._stop.set()
            for thread in threads:
                thread.join()
            raise
        for thread in threads:
            thread.join()
        for lane in self._lanes.values():  # not before: one takes panels from another
            lane.free()

    def _share_inner_panels(self) -> bool:
        """Whether all lanes need the same ones in the same order. In a batch they may be at different items."""
        problem, plan = self._task.problem, self._task.plan
        inner: Side = "b" if plan.outer == "a" else "a"
        devices = range(len(self._gpus))
        return len({tuple(tile.panel(inner, problem) for tile in plan.tiles_of(device)) for device in devices}) == 1

    def _as_they_come(self, left: int) -> Iterator[CheckedTile]:
        heard_at = time.monotonic()
        while left:
            try:
                found = self._found.get(timeout=LOOK_EVERY_S)
            except Empty:
                self._task.check_cancelled()
                self._check_life(time.monotonic() - heard_at)
                continue
            heard_at = time.monotonic()
            if isinstance(found, BaseException):
                self._stop.set()
                raise found
            if found is None:
                left -= 1
            else:
                self._count_rows(found.tile, -1)
                yield found

    def _check_life(self, silent_s: float) -> None:
        """Raises DeviceFault where no device can be expected to go on."""
        if silent_s > STUCK_S + STUCK_TILES * self._tile_s:
            self._stop.set()
            raise DeviceFault(f"No tile came from the device for {silent_s:.0f} s; its worker starts again.")

    def _compute(self, device: int, done: Collection[int]) -> None:
        """Computes the tiles of one device, in a thread of its own."""
        try:
            index = self._gpus[device].index
            with device_faults(), cupy.cuda.Device(index), cupy.cuda.Stream(non_blocking=True):
                self._run(device, done)
            self._found.put(None)
        except Stopped:
            self._found.put(None)
        except BaseException as error:
            self._found.put(error)

    def _run(self, device: int, done: Collection[int]) -> None:
        tiles = [tile for tile in self._task.plan.tiles_of(device) if tile.number not in done]
        index = self._gpus[device].index
        shared = None
        if self._exchange is not None:
            enable_peers(index, [each.index for each in self._gpus])
            shared = Shared(self._exchange, device, index, self._check_cancelled)
        lane = Lane(self._gpus[device], self._task, tiles, self._operands, self._check_cancelled, shared)
        try:
            lane.run(self._rereads, self._places, self._is_done, self._found.put)
            if device:
                lane.end()
        finally:
            lane.synchronize()
            with self._lock:
                self._lanes[device] = lane
        with self._lock:
            back_ms = lane.back.total_ms()
            self._times = Measured(
                h2d_ms=max(self._times.h2d_ms, lane.h2d_ms), kernel_ms=0.0, d2h_ms=max(self._times.d2h_ms, back_ms)
            )

    def _check_cancelled(self) -> None:
        if self._stop.is_set():
            raise Stopped

    # ---- rows that lie in the product's memory ----
    def _count_rows(self, tile: Tile, by: int) -> None:
        for item in range(tile.items.start, tile.items.stop):
            first = item * self._task.problem.m
            self._rows_left[first + tile.rows.start : first + tile.rows.stop] += by

    def _is_done(self, block: Block) -> bool:
        row_bytes = self._out.row_bytes
        return not self._rows_left[block.begin // row_bytes : -(-block.end // row_bytes)].any()

    # ---- the end ----
    def finished(self, records: Mapping[int, TileRecord]) -> bytes:
        with device_faults(), cupy.cuda.Device(self._gpus[0].index), cupy.cuda.Stream(non_blocking=True):
            self._lanes[0].finish(self._task.check_cancelled)
        self._compare_operands(records)
        of_tiles_s = sum(record.kernel_ms for record in records.values()) / 1e3
        kernels_s = of_tiles_s + self._library_s * len(self._gpus)
        self.flops_per_s = self._task.problem.flops / kernels_s if kernels_s >= MIN_LEARNED_S else None
        of_product = self._rereads[-1]
        whole = sum(record.fingerprint for record in records.values()) & MASK
        if of_product.fingerprints[_whole(self._out)] != whole:
            raise VerificationFailed(CHANGED)
        return of_product.parts()

    def _compare_operands(self, records: Mapping[int, TileRecord]) -> None:
        """Checks that what was multiplied, and what is in host memory, equals what was sent."""
        for side, operand, reread in zip(SIDES, (self._task.a, self._task.b), self._rereads[:2], strict=True):
            if operand.digest is not None and reread.digest() != operand.digest:
                raise OperandDamaged
            known = reread.fingerprints
            for tile in self._task.plan.tiles():
                part = panel_part(self._task.problem, tile, side, self._operands[side])
                if getattr(records[tile.number], side) != known[part]:
                    raise OperandDamaged
        if self._addend is not None:
            self._compare_addend(self._addend, self._rereads[2], records)

    def _compare_addend(self, addend: HostMemory, reread: Reread, records: Mapping[int, TileRecord]) -> None:
        sent = self._task.epilogue.c if self._task.epilogue is not None else None
        if sent is not None and sent.digest is not None and reread.digest() != sent.digest:
            raise OperandDamaged
        known = reread.fingerprints
        if any(records[tile.number].c != known[addend_part(tile, addend)] for tile in self._task.plan.tiles()):
            raise OperandDamaged

    @property
    def measured(self) -> Measured:
        return self._times.model_copy(update={"kernel_ms": self._library_s * 1e3})


def _batched(array: Array) -> Array:
    return array if array.ndim == 3 else array[np.newaxis]


def _whole(memory: HostMemory) -> Part:
    return Part(Span(0, memory.array.shape[0]), Span(0, memory.rows), Span(0, memory.columns))
