"""The interface of a device for products in tiles (`kernels/tiles/plan.py`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from jobs.base import Strict
from jobs.formats.elements import Array
from jobs.matrices.slot_memory import SlotMemory
from jobs.models import Measured, Verification
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.tiles.estimate import Estimate
from kernels.tiles.plan import Side, Tile, TilePlan
from worker.device.cancellable_lock import never_cancelled
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Runner


class TileRecord(Strict):
    """A finished tile, as stored in the ledger. Fingerprints are those of `worker/check/fingerprint.py`."""

    tile: int
    residual: float  # over the threshold
    fingerprint: int  # of the tile, as it was checked
    a: int  # of its panels, as they were multiplied; 0 where they are the operands themselves
    b: int
    c: int = 0  # of its part of C, where alpha·A·B + beta·C is computed
    kernel_ms: float


@dataclass(frozen=True, slots=True)
class CheckedTile:
    """A tile that is computed, checked, and lies in the product's memory if its check passed."""

    tile: Tile
    verification: Verification
    record: TileRecord
    wrong_elements: int = 0  # that do not follow from A·B and C

    @property
    def is_wrong(self) -> bool:
        return self.verification.passed is False or self.wrong_elements > 0


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a product is computed in tiles, and the resources that this takes."""

    plan: TilePlan
    estimate: Estimate
    why: str  # a sentence


@dataclass(frozen=True, slots=True)
class TiledTask:
    """A product to be computed in tiles. `seed` is that of its fingerprints. `out` (batch, m, n) is where the product
    goes; it is in `memory` if the store keeps that memory for later products."""

    problem: Problem
    choice: Choice
    plan: TilePlan
    a: HostOperand
    b: HostOperand
    out: Array
    memory: SlotMemory | None
    seed: int
    checked: bool = True
    epilogue: Epilogue | None = None
    check_cancelled: Callable[[], None] = never_cancelled


class TiledProduct(ABC):
    """A product in tiles, valid within its context. Nothing else is computed on the device at the same time."""

    @abstractmethod
    def tiles(self, done: Collection[int]) -> Iterator[CheckedTile]:
        """Computes all tiles but those in `done` and yields each once it is in the product's memory, in no particular
        order. Raises DeviceFault, OutOfDeviceMemory, KernelUnavailable, and what `check_cancelled` raises."""

    @abstractmethod
    def finished(self, records: Mapping[int, TileRecord]) -> bytes:
        """The digests of the parts of the product's memory, 8 bytes each, once all tiles lie there. `records` are those
        of all tiles, of earlier attempts too.

        Raises OperandDamaged where what was multiplied is not what was sent, VerificationFailed where the product is
        not that which was checked."""

    @property
    @abstractmethod
    def measured(self) -> Measured:
        """Milliseconds of all devices together, of what this attempt did."""


class TilingRunner(Runner):
    """A runner that also computes products in tiles: those for which its device, or the part of it that may be used,
    has no room."""

    @abstractmethod
    def tiling(self, problem: Problem, choice: Choice, *, has_epilogue: bool) -> Tiling | None:
        """How the product would be computed in tiles; None if it is computed whole. Raises DoesNotFit if it is too
        large for both."""

    @abstractmethod
    def tiled(self, task: TiledTask) -> AbstractContextManager[TiledProduct]:
        """Waits until nothing else is computed on the device."""


def stored_part(array: Array, tile: Tile, problem: Problem, side: Side) -> tuple[Array, int, int]:
    """A tile's panel within the stored operand (batch, rows, columns), with the row and the column of its first element
    in the stored matrix."""
    items, span = tile.panel(side, problem)
    is_transposed = problem.transpose_a if side == "a" else problem.transpose_b
    of_batch = array[items.start : items.stop]
    if (side == "a") != is_transposed:
        return of_batch[:, span.start : span.stop], span.start, 0
    return of_batch[:, :, span.start : span.stop], 0, span.start


def described(plan: TilePlan, estimated: Estimate, where: str) -> Tiling:
    """`where`: as in "on one GPU"."""
    tile = plan.largest
    size = f"{tile.rows.size}×{tile.columns.size}" + (f" of {tile.items.size} matrices" if tile.items.size > 1 else "")
    why = f"in {plan.count} tiles of {size} {where}, about {max(estimated.total_s, 0.1):.1f} s"
    return Tiling(plan, estimated, why)
