"""Libraries that multiply matrices in the host's memory, on all GPUs of a worker at once."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.kernel import DeviceTraits, LibraryKernel
from kernels.model.numerics import DTypeName


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLibraryKernel(LibraryKernel):
    """Runs only when requested by name: it cannot be stopped, reports no progress, and is not measured among the
    kernels that multiply on one device.
    """

    min_gpus: int = 1
    needs: str | None = None  # among `DeviceTraits.libraries`; None: what comes with CuPy
    install: str = ""  # what to do where that is missing, as a sentence
    copies: bool = False  # whether it copies while it multiplies, piece by piece; else a GPU has its part of everything

    @property
    def is_everyday(self) -> bool:
        return False

    def unsupported_because(self, device: DeviceTraits, dtype: DTypeName | None = None) -> str | None:
        if (reason := LibraryKernel.unsupported_because(self, device, dtype)) is not None:
            return reason
        if device.gpus < self.min_gpus:
            return f"{self.name} takes a worker of {self.min_gpus} GPUs or more, as in `--device gpus:0,1`."
        if self.needs is not None and self.needs not in device.libraries:
            return f"{self.name} needs {self.library} on the worker. {self.install}"
        return None
