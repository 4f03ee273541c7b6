"""Kernels that can run a product on a device, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from kernels.catalog import CATALOG
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import AccuracyName, DTypeName, Problem


class NoKernelError(ValueError):
    """No kernel fits; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen kernel and config, and one sentence that says why."""

    kernel: Kernel
    config: TileConfig
    why: str


def candidates(
    problem: Problem, accuracy: AccuracyName, device: DeviceTraits, served: Collection[str] | None = None
) -> list[Kernel]:
    """Kernels that run this product on this device to this accuracy, in ladder order."""
    found = _candidates(problem.dtype, accuracy, device)
    return [
        kernel
        for kernel in found
        if kernel.takes_scales_of(problem)
        and kernel.takes_groups_of(problem)
        and (served is None or kernel.name in served)
    ]


@lru_cache(maxsize=256)
def _candidates(dtype: DTypeName, accuracy: AccuracyName, device: DeviceTraits) -> tuple[Kernel, ...]:
    """Whatever the operands' shapes, scales and groups."""
    return tuple(
        kernel
        for kernel in CATALOG
        if kernel.takes(dtype, accuracy) and kernel.unsupported_because(device, dtype) is None
    )
