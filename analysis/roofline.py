"""Roofline: how fast a kernel of a given intensity can be on a device, and how far measurements lie below that.

It is always stated which bytes an intensity counts: `compulsory`, each matrix moved once; `tile`, what a kernel's tiles
read from outside the block, and the product; `measured`, device memory traffic from counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.measurement import Device, Measurement
from analysis.tiling import Tile, tiling
from kernels.catalog import BY_NAME
from kernels.model.groups import tiles
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName

ByteModel = Literal["compulsory", "tile", "measured"]
RoofKind = Literal["theoretical", "measured"]
Limit = Literal["compute", "memory"]
Bound = Literal["compute", "memory", "tile traffic", "neither roof"]
NEAR_ROOF = 0.5  # of a roof: a kernel below it is limited by something else

# A figure this many times a roof is an error. A measured roof is itself a sample, so its limit is higher.
TOLERANCE: dict[RoofKind, float] = {"theoretical": 1.02, "measured": 1.10}
# Arithmetic of an accuracy class on float32 operands, by the element type whose units do it; TF32 has no such type.
_UNITS: dict[AccuracyName, DTypeName | None] = {
    "fp32": "float32",
    "tf32": None,
    "bf16": "bfloat16",
    "fp16": "float16",
}


@dataclass(frozen=True, slots=True)
class Roofs:
    """GFLOPS and 10⁹ bytes a second; None if unknown."""

    kind: RoofKind
    gflops: float | None
    memory_gb_s: float | None

    @property
    def ridge(self) -> float | None:
        """FLOP per byte above which compute is the limit."""
        return self.gflops / self.memory_gb_s if self.gflops and self.memory_gb_s else None

    def ops_per_word(self) -> float | None:
        """The ridge in operations for each float32: the q of the reports."""
        return None if self.ridge is None else self.ridge * DTYPES["float32"].itemsize

    def attainable(self, intensity: float) -> float | None:
        """GFLOPS at this intensity in FLOP per byte."""
        if self.gflops is None or self.memory_gb_s is None:
            return None
        return min(self.gflops, intensity * self.memory_gb_s)

    def limit(self, intensity: float) -> Limit | None:
        if self.ridge is None:
            return None
        return "memory" if intensity < self.ridge else "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement under its roofs."""

    measurement: Measurement
    model: ByteModel
    bytes: float
    intensity: float  # FLOP per byte
    attainable: float | None  # GFLOPS
    limit: Limit | None
    fraction: float | None  # of the attainable speed
    implausible: str | None  # a sentence, if it lies above a roof that it cannot exceed


def theoretical_gflops(cores: int | None, clock_mhz: float | None) -> float | None:
    """A multiply and an add for each core and clock."""
    return cores * 2 * clock_mhz / 1e3 if cores and clock_mhz else None


def theoretical_gb_s(bus_bits: int | None, memory_clock_mhz: float | None) -> float | None:
    """Two transfers a clock over the whole bus."""
    return bus_bits / 8 * 2 * memory_clock_mhz / 1e3 if bus_bits and memory_clock_mhz else None


def theoretical_roofs(device: Device, units: DTypeName | None = "float32") -> Roofs:
    """The stated roofs, or those computed from cores, bus and clocks. `units`: the element type whose units do the
    arithmetic."""
    stated = device.theoretical.gflops.get(units) if units else None
    counted = theoretical_gflops(device.cores, device.clock_mhz) if _counts_cores(device, units) else None
    memory = device.theoretical.memory_gb_s or theoretical_gb_s(device.memory_bus_bits, device.memory_clock_mhz)
    return Roofs("theoretical", stated or counted, memory)


def measured_roofs(device: Device, units: DTypeName | None = "float32") -> Roofs:
    return Roofs("measured", device.measured.gflops.get(units) if units else None, device.measured.memory_gb_s)


def _counts_cores(device: Device, units: DTypeName | None) -> bool:
    """False for a CPU, whose cores do many operations a clock; a GPU's cores are float32 units."""
    return device.device_class == "gpu" and units == "float32"


def units_of(measurement: Measurement) -> DTypeName | None:
    """The element type whose peak limits it. None if that type is not listed, the accuracy class is unknown, or each
    product is made of several products of another type."""
    kernel = BY_NAME.get(measurement.kernel or "")
    if kernel is not None and kernel.emulated_with is not None:
        return None
    if measurement.dtype != "float32":
        return measurement.dtype
    return _UNITS.get(measurement.accuracy) if measurement.accuracy else None


def moved_bytes(measurement: Measurement, model: ByteModel) -> float | None:
    problem = measurement.problem
    if model == "compulsory":
        return problem.operand_bytes + problem.product_bytes
    return measurement.dram_bytes if model == "measured" else _tile_bytes(measurement)


def _tile_bytes(measurement: Measurement) -> float | None:
    """A is read once for each column of tiles, B once for each row of tiles."""
    if (cut := tiling(measurement)) is None or (served := served_tile(cut.tile)) is None:
        return None
    rows, columns = served
    problem = measurement.problem
    a = problem.m * problem.k * tiles(problem.n, columns)
    b = problem.k * problem.n * tiles(problem.m, rows)
    return (a + b) * problem.batch * DTYPES[problem.dtype].itemsize + problem.product_bytes


def served_tile(tile: Tile) -> tuple[int, int] | None:
    """Rows and columns of the product that one read of an operand serves: the block's tile if the operand passes
    through shared memory, else the elements of one thread, which lie in one row."""
    if tile.shared:
        return tile.rows, tile.columns
    return (1, tile.rows * tile.columns // tile.threads) if tile.threads else None


def point(measurement: Measurement, roofs: Roofs, model: ByteModel = "compulsory") -> Point | None:
    """None if speed or bytes are unknown."""
    moved = moved_bytes(measurement, model)
    if measurement.gflops is None or not moved:
        return None
    intensity = measurement.problem.flops / moved
    attainable = roofs.attainable(intensity)
    return Point(
        measurement=measurement,
        model=model,
        bytes=moved,
        intensity=intensity,
        attainable=attainable,
        limit=roofs.limit(intensity),
        fraction=measurement.gflops / attainable if attainable else None,
        implausible=_implausible(measurement, roofs, model, intensity),
    )


def bound(measurement: Measurement, roofs: Roofs) -> Bound | None:
    """What limits a kernel, as far as roofs show it. Below half of its roof it is neither compute nor memory, but
    latency, access pattern or the instructions themselves. Near the roof it depends on the side of the ridge. Compute
    counts only if the bytes that its tiles read are also beyond the ridge, because caches and memory may be unable to
    deliver those."""
    moved_once, by_tiles = point(measurement, roofs, "compulsory"), point(measurement, roofs, "tile")
    if moved_once is None or moved_once.fraction is None:
        return None
    if moved_once.fraction < NEAR_ROOF:
        return "neither roof"
    if moved_once.limit == "compute" and by_tiles is not None and by_tiles.limit == "memory":
        return "tile traffic"
    return moved_once.limit


def _implausible(measurement: Measurement, roofs: Roofs, model: ByteModel, intensity: float) -> str | None:
    """A speed that no device with these roofs has. The memory roof applies to bytes that must pass through memory:
    counted ones, and compulsory ones if the cache was cold. Tiles are read again from caches, which are faster than
    memory."""
    gflops, tolerance = measurement.gflops, TOLERANCE[roofs.kind]
    if gflops is None:
        return None
    if roofs.gflops is not None and gflops > tolerance * roofs.gflops:
        return f"{gflops:.0f} GFLOPS are above the {roofs.kind} peak of {roofs.gflops:.0f}."
    from_memory = model == "measured" or (model == "compulsory" and measurement.cache == "cold")
    if from_memory and roofs.memory_gb_s is not None and gflops > tolerance * intensity * roofs.memory_gb_s:
        return (
            f"{gflops:.0f} GFLOPS at {intensity:.1f} FLOP a byte are {gflops / intensity:.0f} GB/s, "
            f"above the {roofs.kind} {roofs.memory_gb_s:.0f}."
        )
    return None
