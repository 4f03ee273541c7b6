"""Roofs of a GPU by arithmetic: units per multiprocessor times clock, bus width times memory clock."""

from __future__ import annotations

from kernels.numerics import DTypeName

# Multiply-adds per clock and multiprocessor, by compute capability: the faster of CUDA cores and dense tensor cores
# that keep the type's accuracy. From NVIDIA's CUDA C++ Programming Guide (arithmetic throughput) and the
# architectures' white papers (Turing, A100, GA102, Ada, H100). What is not listed is unknown.
MULTIPLY_ADDS: dict[tuple[int, int], dict[DTypeName, int]] = {
    (7, 0): {"float16": 512, "float32": 64, "float64": 32, "int32": 64},
    (7, 5): {"float16": 512, "float32": 64, "float64": 2, "int8": 1024, "int32": 64},
    (8, 0): {"float16": 1024, "bfloat16": 1024, "float32": 64, "float64": 64, "int8": 2048, "int32": 64},
    (8, 6): {"float16": 512, "bfloat16": 512, "float32": 128, "float64": 2, "int8": 1024, "int32": 64},
    (8, 9): {"float16": 512, "bfloat16": 512, "float32": 128, "float64": 2, "int8": 1024, "int32": 64},
    (9, 0): {"float16": 2048, "bfloat16": 2048, "float32": 128, "float64": 128, "int8": 4096, "int32": 64},
}


def peak_gflops(capability: tuple[int, int], multiprocessors: int, clock_khz: int) -> dict[DTypeName, float]:
    """Operations a second by element type, in 10⁹, at the highest clock; empty where the device is not known."""
    units = MULTIPLY_ADDS.get(capability, {})
    return {dtype: 2 * count * multiprocessors * clock_khz * 1e3 / 1e9 for dtype, count in units.items() if clock_khz}


def memory_gb_s(memory_clock_khz: int, bus_bits: int) -> float | None:
    """Two transfers a clock over the whole bus; None where either is not told."""
    return 2 * memory_clock_khz * 1e3 * bus_bits / 8 / 1e9 or None
