"""How many blocks find room on a multiprocessor, against cases worked out by hand from the limits."""

from __future__ import annotations

import pytest

from kernels.model.architectures import ARCHITECTURES, KIB


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared_bytes", "blocks"),
    [
        ("sm_90", 256, 32, 0, 8),  # 2,048 threads
        ("sm_90", 32, 32, 0, 32),  # 32 blocks
        ("sm_90", 256, 128, 0, 2),  # 16 warps of 4,096 registers
        ("sm_90", 256, 129, 0, 1),  # rounded up to 4,352 a warp: 15 warps, 12 of which are whole fours
        ("sm_90", 1024, 64, 0, 1),
        ("sm_90", 1024, 65, 0, 0),  # 28 warps only: such a launch fails
        ("sm_90", 128, 40, 75 * KIB, 3),  # with the system's KiB, three times 76
        ("sm_90", 128, 40, 75 * KIB + 1, 2),
        ("sm_90", 128, 40, 227 * KIB, 1),
        ("sm_75", 512, 48, 0, 2),  # 1,024 threads
        ("sm_75", 128, 48, 32 * KIB, 2),  # no KiB for the system
        ("sm_89", 512, 32, 0, 3),  # 1,536 threads
        ("sm_86", 64, 32, 0, 16),
        ("sm_120", 64, 32, 0, 24),
        ("sm_90", 33, 32, 0, 32),  # two warps each
    ],
)
def test_what_limits_first(arch: str, threads: int, registers: int, shared_bytes: int, blocks: int) -> None:
    assert ARCHITECTURES[arch].resident_blocks(threads, registers, shared_bytes) == blocks


def test_occupancy_is_the_share_of_warps() -> None:
    h200 = ARCHITECTURES["sm_90"]
    assert h200.occupancy(256, 254, 0) == 0.125  # as the profiler says of cuBLAS' own fp32 kernel
    assert h200.occupancy(1024, 32, 0) == 1.0
    assert h200.occupancy(33, 32, 0) == 1.0
    assert h200.occupancy(96, 32, 0) == 63 / 64


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_names_are_the_compiler_s(name: str) -> None:
    found = ARCHITECTURES[name]
    major, minor = found.compute_capability
    assert name == f"sm_{major}{minor}"
    assert found.traits.compute_capability == (major, minor)
    assert found.shared_bytes_per_block <= found.shared_bytes
