"""Launch plans of kernels, derived once from problem and config."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.entry.boxes import Boxes
from kernels.model.groups import GroupTable
from kernels.model.numerics import Problem


@dataclass(frozen=True, slots=True)
class Launch:
    """Grid and block in CUDA's x, y, z order, and the dynamic shared memory of one block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    resident: bool = False  # the grid counts tiles, and no more blocks than the device has room for go through them
    cluster: int = 1  # blocks next to each other on x that start together, as the source says
    each: int = 1  # resident blocks of a multiprocessor
    parts: int = 1  # that a tile may be cut into, where there are fewer tiles than resident blocks
    stacked: int = 1  # blocks that one tile of the grid is for, each with its own rows of it

    def on(self, multiprocessors: int) -> tuple[int, int, int]:
        """The grid that is launched on a device of so many multiprocessors: whole clusters, as many as get work."""
        if not self.resident:
            return self.grid
        clusters = min(self.grid[0] * self.parts, max(multiprocessors * self.each // self.cluster, 1))
        return (clusters * self.cluster, *self.grid[1:])


@dataclass(frozen=True, slots=True)
class Pass:
    """A function of a kernel's file that runs before the kernel itself, or behind it, with the same arguments."""

    name: str
    launch: Launch
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Workspace:
    """Device memory that a kernel needs besides the matrices, passed as its last argument; the first bytes are
    zeroed. Counters are passed behind it: words that every launch finds as zero and leaves as zero.
    """

    bytes: int
    zeroed_bytes: int
    macros: tuple[str, ...] = ()  # that say so to a source which does not always need it
    counters: int = 0


@dataclass(frozen=True, slots=True)
class Mirror:
    """The function that copies one triangle of a symmetric C to where it belongs in the other."""

    launch: Launch
    from_lower: bool


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A kernel's launches for one problem and config."""

    problem: Problem
    inner: Problem  # the problem without its edge, which a separate function computes
    launched: Problem  # and as the kernel's function sees it, with operands transposed as it needs them
    main: Launch
    passes: tuple[Pass, ...] = ()
    workspace: Workspace | None = None
    boxes: Boxes | None = None  # where set, the function is given tensor maps, not addresses
    mirrored: Mirror | None = None  # where set, what is launched behind it, as it computes one triangle of C
    groups: GroupTable = ()  # where rows of A have groups, what the function finds a tile's group in
