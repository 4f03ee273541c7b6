"""Figures of a kernel at one config that follow from its entry and its compiled form, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernels.model.architectures import H200
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.resources import ConfigRecord, records_of
from kernels.selection.defaults import default_config, main_dtype

SIDE = 2**9 * 3**2 * 5 * 7  # elements; a whole number of any tile
DEPTH_PARAMETERS = (
    "block_k",
    "tile",
    "unroll",
)  # the first that a kernel has says how many steps of k it takes at once


@dataclass(frozen=True, slots=True)
class Model:
    """A kernel at the config that a large product of its main element type gets on an H200."""

    kernel: CudaKernel
    dtype: DTypeName
    config: TileConfig

    @property
    def splits(self) -> int:
        """Blocks that share a tile of C, each a part of k."""
        return self._blocks(1, 1)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C of a block, as the launch arithmetic has it."""
        rows = SIDE * self.splits // self._blocks(SIDE, 1)
        columns = SIDE * self.splits // self._blocks(1, SIDE)
        return rows, columns

    def _blocks(self, m: int, n: int) -> int:
        return self.kernel.plan(Problem(m, n, SIDE, self.dtype), self.config).main.grid[0]

    @property
    def depth(self) -> int:
        """Steps of k that a block brings in together: a parameter says, or the width of a bulk copy's box."""
        depth = next((self.config[name] for name in DEPTH_PARAMETERS if name in self.config), None)
        boxes = self.kernel.plan(Problem(*self.tile, SIDE, self.dtype), self.config).boxes
        if depth is None and boxes is not None:
            _, depth = boxes.a
        return depth or 1

    @property
    def block(self) -> tuple[int, int]:
        """Threads along x and y."""
        x, y, _ = self.kernel.plan(Problem(*self.tile, SIDE, self.dtype), self.config).main.block
        return x, y

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def traffic(self) -> float:
        """Bytes of operands for each multiply-add, where each element comes once to each block."""
        rows, columns = self.tile
        return (rows + columns) * DTYPES[self.dtype].itemsize / (rows * columns)

    @property
    def intensity(self) -> float:
        """FLOP per byte of operands, likewise."""
        return 2 / self.traffic

    @property
    def record(self) -> ConfigRecord | None:
        table = records_of(self.kernel.name)
        return table.find(self.config, self.dtype) if table else None

    @property
    def registers(self) -> int | None:
        """Registers of a thread on an H200; None if not compiled yet."""
        return self.record.usage[H200.name].registers if self.record else None

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.record.shared_bytes if self.record else self.kernel.shared_bytes(self.config, self.dtype)

    @property
    def blocks_per_multiprocessor(self) -> int | None:
        """At once, on an H200."""
        return self.registers and H200.resident_blocks(self.threads, self.registers, self.shared_bytes)

    @property
    def occupancy(self) -> float | None:
        """Theoretical, on an H200."""
        return self.registers and H200.occupancy(self.threads, self.registers, self.shared_bytes)


def model_of(kernel: CudaKernel) -> Model:
    return Model(kernel, main_dtype(kernel), default_config(kernel, H200.traits))
