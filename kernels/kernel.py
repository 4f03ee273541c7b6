"""What a catalogue entry says about a kernel, and how a launch follows from it. Nothing here touches a device.

Describe (the entry) → decide (`resolve_config`, `launch`) → launch (`worker/launch.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from kernels.numerics import DTYPES, AccuracyName, DTypeName, Problem, meets

TileConfig = Mapping[str, int]
DeviceClass = Literal["cpu", "gpu"]
SOURCE_DIR = Path(__file__).parent / "cuda"
NO_CONFIG: TileConfig = MappingProxyType({})


class ConfigError(ValueError):
    """A tile config that the kernel does not take; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tile parameter: `block_m` here is the macro `BLOCK_M` in the CUDA source."""

    name: str
    values: tuple[int, ...]
    default: int
    summary: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule over a whole config, with the sentence a caller reads when it does not hold."""

    holds: Callable[[TileConfig], bool]
    sentence: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Grid and block in CUDA's x, y, z order, and the dynamic shared memory of one block."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """What decides whether a kernel runs on a device."""

    device_class: DeviceClass
    compute_capability: tuple[int, int] = (0, 0)  # (0, 0) on a CPU
    shared_bytes_per_block: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One way to multiply. The name is the API value, the metric label and, for CUDA, the file stem and symbol."""

    name: str
    summary: str  # one line
    idea: str  # a short paragraph: what it does and why that is faster or slower than the rung before
    origin: str  # where it comes from: a report, a library
    device_class: DeviceClass
    accuracy: Mapping[DTypeName, AccuracyName]  # element types taken, and the error class each is computed in
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    min_compute_capability: tuple[int, int] = (0, 0)

    @property
    def dtypes(self) -> tuple[DTypeName, ...]:
        return tuple(self.accuracy)

    def takes(self, dtype: DTypeName, accuracy: AccuracyName | None = None) -> bool:
        """Whether it multiplies `dtype` operands to at least the class asked for (by default the dtype's own)."""
        return dtype in self.accuracy and meets(self.accuracy[dtype], accuracy or DTYPES[dtype].accuracy)

    def unsupported_because(self, device: DeviceTraits) -> str | None:
        """Why this device cannot run it, as a sentence; None where it can."""
        if device.device_class != self.device_class:
            return f"{self.name} runs on a {self.device_class.upper()}, not on a {device.device_class.upper()}."
        if device.compute_capability < self.min_compute_capability:
            need, have = (".".join(map(str, cc)) for cc in (self.min_compute_capability, device.compute_capability))
            return f"{self.name} needs compute capability {need}; this device has {have}."
        return None

    def resolve_config(self, asked: TileConfig = NO_CONFIG) -> TileConfig:
        """The full config for `asked`, defaults filled in. Raises ConfigError with the sentence of what is wrong."""
        known = {p.name: p for p in self.parameters}
        for name, value in asked.items():
            if name not in known:
                offer = ", ".join(known) or "none"
                raise ConfigError(f"{self.name} has no parameter {name!r}; it has: {offer}.")
            if value not in known[name].values:
                allowed = ", ".join(map(str, known[name].values))
                raise ConfigError(f"{name}={value} is not allowed for {self.name}; allowed values: {allowed}.")
        config = {p.name: asked.get(p.name, p.default) for p in self.parameters}
        for constraint in self.constraints:
            if not constraint.holds(config):
                raise ConfigError(constraint.sentence.format(**config))
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel(Kernel):
    """A kernel of ours: `cuda/<name>.cu` holds `extern "C" __global__ void <name>(…)`."""

    device_class: DeviceClass = "gpu"
    arrange: Callable[[Problem, TileConfig], Launch] = field(repr=False)

    @property
    def source_path(self) -> Path:
        return SOURCE_DIR / f"{self.name}.cu"

    def defines(self, config: TileConfig) -> tuple[str, ...]:
        """Compiler options that give the source its tile sizes: block_m=64 becomes -DBLOCK_M=64."""
        return tuple(f"-D{name.upper()}={value}" for name, value in sorted(config.items()))

    def launch(self, problem: Problem, config: TileConfig) -> Launch:
        """Grid, block and shared bytes. `config` is a full one, out of `resolve_config`."""
        return self.arrange(problem, config)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryKernel(Kernel):
    """A library's product, the baseline: no source of ours, no tile."""

    library: str  # as in "cuBLAS"
