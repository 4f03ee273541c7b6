"""Complex products computed by kernels for real products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, DeviceClass, DeviceTraits, Kernel
from kernels.model.numerics import DTYPES, DTypeName


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedKernel(Kernel):
    """A complex product as the real one that it is (`Problem.as_real`), by whichever kernel `auto` takes for that, or,
    where its parameter `emulated` is 1, by what emulates its type of parts."""

    device_class: DeviceClass = "gpu"
    emulators: Mapping[DTypeName, CudaKernel] = field(default_factory=dict, repr=False)

    def misfit(self, config: TileConfig, dtype: DTypeName, device: DeviceTraits | None = None) -> str | None:
        if device is None or not config.get("emulated"):
            return None
        return self.emulators[dtype].unsupported_because(device, DTYPES[dtype].real)
