"""GPU architectures for which kernels are compiled ahead of time, and how many blocks fit on their multiprocessors.

Figures: the table of technical specifications per compute capability in NVIDIA's CUDA C++ Programming Guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from kernels.model.kernel import DeviceTraits

KIB = 1024
WARP = 32  # threads
REGISTERS = 65_536  # of a multiprocessor, 32 bits each
REGISTER_UNIT = 256  # a warp's registers are given out in units of this many,
WARP_UNIT = 4  # and warps in units of one for each of the four schedulers


@dataclass(frozen=True, slots=True)
class Architecture:
    """The resources of one multiprocessor."""

    name: str  # as the compiler takes it
    compute_capability: tuple[int, int]
    threads: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int  # the most that a block may ask for
    shared_bytes_kept: int = KIB  # for the system, of each block

    @property
    def traits(self) -> DeviceTraits:
        return DeviceTraits("gpu", self.compute_capability, self.shared_bytes_per_block)

    def limits(self, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
        """For each resource, the number of blocks of this size (threads, registers per thread, bytes of shared memory)
        that it allows.
        """
        warps = -(-threads // WARP)
        per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
        return {
            "threads": self.threads // (warps * WARP),
            "registers": REGISTERS // per_warp // WARP_UNIT * WARP_UNIT // warps,
            "shared memory": (
                self.shared_bytes // (shared_bytes + self.shared_bytes_kept) if shared_bytes else self.blocks
            ),
            "blocks": self.blocks,
        }

    def resident_blocks(self, threads: int, registers: int, shared_bytes: int) -> int:
        """The number of such blocks that can be resident at once."""
        return min(self.limits(threads, registers, shared_bytes).values())

    def limited_by(self, threads: int, registers: int, shared_bytes: int) -> tuple[str, ...]:
        """The resources that limit the number of blocks."""
        limits = self.limits(threads, registers, shared_bytes)
        fewest = min(limits.values())
        return tuple(name for name, blocks in limits.items() if blocks == fewest)

    def occupancy(self, threads: int, registers: int, shared_bytes: int) -> float:
        """Resident warps as a share of the multiprocessor's maximum, 0 to 1."""
        warps = -(-threads // WARP)
        return self.resident_blocks(threads, registers, shared_bytes) * warps * WARP / self.threads


ARCHITECTURES = MappingProxyType(
    {
        architecture.name: architecture
        for architecture in (
            Architecture("sm_75", (7, 5), 1024, 16, 64 * KIB, 64 * KIB, 0),
            Architecture("sm_80", (8, 0), 2048, 32, 164 * KIB, 163 * KIB),
            Architecture("sm_86", (8, 6), 1536, 16, 100 * KIB, 99 * KIB),
            Architecture("sm_89", (8, 9), 1536, 24, 100 * KIB, 99 * KIB),
            Architecture("sm_90", (9, 0), 2048, 32, 228 * KIB, 227 * KIB),
            Architecture("sm_100", (10, 0), 2048, 32, 228 * KIB, 227 * KIB),
            Architecture("sm_120", (12, 0), 1536, 24, 100 * KIB, 99 * KIB),
        )
    }
)
H200 = ARCHITECTURES["sm_90"]
H200_MULTIPROCESSORS = 132
