"""Roofs of a GPU by arithmetic: units per multiprocessor times clock, bus width times memory clock."""

from __future__ import annotations

from kernels.model.numerics import DTypeName

# Multiply-adds per clock and multiprocessor, by compute capability: the faster of CUDA cores and dense tensor cores
# that keep the type's accuracy. From NVIDIA's CUDA C++ Programming Guide (arithmetic throughput) and the
# architectures' white papers (Turing, A100, GA102, Ada, H100). What is not listed is unknown.
MULTIPLY_ADDS: dict[tuple[int, int], dict[DTypeName, int]] = {
    (7, 0): {"float16": 512, "float32": 64, "float64": 32, "int32": 64},
    (7, 5): {"float16": 512, "float32": 64, "float64": 2, "int8": 1024, "int32": 64},
    (8, 0): {"float16": 1024, "bfloat16": 1024, "float32": 64, "float64": 64, "int8": 2048, "int32": 64},
    (8, 6): {"float16": 512, "bfloat16": 512, "float32": 128, "float64": 2, "int8": 1024, "int32": 64},
    (8, 9): {
        "float16": 512,
        "bfloat16": 512,
        "float32": 128,
        "float64": 2,
        "int8": 1024,
        "int32": 64,
        "float8_e4m3": 1024,
    },
    (9, 0): {
        "float16": 2048,
        "bfloat16": 2048,
        "float32": 128,
        "float64": 128,
        "int8": 4096,
        "int32": 64,
        "float8_e4m3": 4096,
    },
}

# The same without tensor cores: float16 two at a time, as the chains of `worker/cuda/bench/ceilings.py` take it.
CORE_MULTIPLY_ADDS: dict[tuple[int, int], dict[DTypeName, int]] = {
    (7, 0): {"float16": 128, "float32": 64, "float64": 32, "int32": 64},
    (7, 5): {"float16": 128, "float32": 64, "float64": 2, "int32": 64},
    (8, 0): {"float16": 256, "float32": 64, "float64": 32, "int32": 64},
    (8, 6): {"float16": 128, "float32": 128, "float64": 2, "int32": 64},
    (8, 9): {"float16": 128, "float32": 128, "float64": 2, "int32": 64},
    (9, 0): {"float16": 256, "float32": 128, "float64": 64, "int32": 64},
}

# One lane of PCI Express, one way, in 10⁹ bytes a second, by generation: its rate times its line code's efficiency.
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 8 * 128 / 130 / 8, 4: 16 * 128 / 130 / 8, 5: 32 * 128 / 130 / 8}


def peak_gflops(capability: tuple[int, int], multiprocessors: int, clock_khz: int) -> dict[DTypeName, float]:
    """Operations a second by element type, in 10⁹, at the highest clock; empty where the device is not known."""
    units = MULTIPLY_ADDS.get(capability, {})
    return {dtype: 2 * count * multiprocessors * clock_khz * 1e3 / 1e9 for dtype, count in units.items() if clock_khz}


def core_gflops(
    capability: tuple[int, int] | None, multiprocessors: int | None, clock_mhz: int | None
) -> dict[DTypeName, float]:
    """The same for CUDA cores alone."""
    units = CORE_MULTIPLY_ADDS.get(capability or (0, 0), {})
    per_unit = 2 * (multiprocessors or 0) * (clock_mhz or 0) * 1e6 / 1e9
    return {dtype: count * per_unit for dtype, count in units.items() if per_unit}


def link_gb_s(generation: int | None, lanes: int | None) -> float | None:
    """The bandwidth of PCI Express in one direction, including packet headers; None if either argument is unknown."""
    lane = LANE_GB_S.get(generation or 0)
    return lane * lanes if lane and lanes else None


def memory_gb_s(memory_clock_khz: int, bus_bits: int) -> float | None:
    """Two transfers a clock over the whole bus; None where either is not told."""
    return 2 * memory_clock_khz * 1e3 * bus_bits / 8 / 1e9 or None
