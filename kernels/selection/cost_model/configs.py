"""Configs of measured rows, as they are for a product at hand."""

from __future__ import annotations

from functools import lru_cache

from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, ConfigError, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.tuned import ConfigItems, Tried


def items(config: TileConfig) -> ConfigItems:
    """The config as a hashable key."""
    return tuple(config.items())


def as_measured(kernel: Kernel, config: TileConfig, there: Problem, device: DeviceTraits) -> TileConfig | None:
    """The full config of a row: one recorded before a parameter was added has its default. None on another device, or
    for a kernel that has changed since."""
    if len(config) == len(kernel.parameters):
        return _valid(kernel.name, items(config), there.dtype, device)
    return _resolved(kernel, config, there, device)


@lru_cache(maxsize=256)
def suiting(dtype: DTypeName, device: DeviceTraits) -> Suiting:
    return Suiting(dtype, device)


class Suiting:
    """Measured configs of products of one type, as they are for other products on a device."""

    def __init__(self, dtype: DTypeName, device: DeviceTraits) -> None:
        self._dtype, self._device = dtype, device
        self._known: dict[Tried, tuple[bool, TileConfig | None]] = {}

    def config(self, kernel: Kernel, tried: Tried, problem: Problem) -> TileConfig | None:
        """A row's config as it is for the product at hand: a kernel that chose its own there, by what each should take,
        chooses its own here. It may have chosen by other numbers then. None where the kernel takes none such."""
        if (known := self._known.get(tried)) is None:
            known = self._known[tried] = self._is_own(kernel, tried), self._full(kernel, tried)
        is_own, full = known
        if is_own or (problem.symmetric and isinstance(kernel, CudaKernel) and kernel.triangle is not None):
            return _own(kernel.name, problem, self._device)
        return full if _is_full(kernel, tried) else _resolved(kernel, dict(tried.config), problem, self._device)

    def _is_own(self, kernel: Kernel, tried: Tried) -> bool:
        """Whether it is one of those that the kernel chooses from."""
        if not isinstance(kernel, CudaKernel) or kernel.clocks is None:
            return False
        return tried.config in _offered(kernel.name, self._dtype, self._device)

    def _full(self, kernel: Kernel, tried: Tried) -> TileConfig | None:
        return _valid(kernel.name, tried.config, self._dtype, self._device) if _is_full(kernel, tried) else None


def _is_full(kernel: Kernel, tried: Tried) -> bool:
    return len(tried.config) == len(kernel.parameters)


@lru_cache(maxsize=256)
def _offered(name: str, dtype: DTypeName, device: DeviceTraits) -> frozenset[ConfigItems]:
    kernel, anything = BY_NAME[name], Problem(1, 1, 1, dtype)
    starts = (default.config for default in kernel.defaults if default.runs(dtype, device))
    resolved = (_resolved(kernel, start, anything, device) for start in starts)
    return frozenset(items(config) for config in resolved if config is not None)


@lru_cache(maxsize=16_384)
def _own(name: str, problem: Problem, device: DeviceTraits) -> TileConfig | None:
    """The config that the kernel uses if none is requested."""
    return _resolved(BY_NAME[name], NO_CONFIG, problem, device)


@lru_cache(maxsize=4096)
def _valid(name: str, config: ConfigItems, dtype: DTypeName, device: DeviceTraits) -> TileConfig | None:
    """A full config does not depend on the shape."""
    return _resolved(BY_NAME[name], dict(config), Problem(1, 1, 1, dtype), device)


def _resolved(kernel: Kernel, config: TileConfig, problem: Problem, device: DeviceTraits) -> TileConfig | None:
    try:
        return kernel.resolve_config(config, problem, device)
    except ConfigError:
        return None
