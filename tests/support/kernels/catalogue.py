"""Questions that only tests ask of the catalogue's entries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from math import inf
from typing import Any
from unittest import mock

from kernels.catalog import BY_NAME, CATALOG
from kernels.model import triangle
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName


def cuda_kernel(name: str) -> CudaKernel:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return kernel


def max_shared_memory(dtype: DTypeName) -> tuple[CudaKernel, TileConfig, int]:
    """The kernel and config that need most shared memory for `dtype`, and how many bytes a block; of kernels that have
    configs which need less."""
    needs = (
        (kernel, config, kernel.shared_bytes(config, dtype))
        for kernel in CATALOG
        if isinstance(kernel, CudaKernel) and dtype in kernel.dtypes
        if len({kernel.shared_bytes(config, dtype) for config in kernel.configs()}) > 1
        for config in kernel.configs()
        if kernel.misfit(config, dtype) is None
    )
    return max(needs, key=lambda need: need[2])


def max_registers() -> tuple[CudaKernel, TileConfig, DTypeName]:
    """A kernel, config and element type whose sums no thread has registers for."""
    return next(
        (kernel, config, dtype)
        for kernel in CATALOG
        if isinstance(kernel, CudaKernel)
        for config in kernel.configs()
        for dtype in kernel.dtypes
        if kernel.misfit(config, dtype) is not None
    )


def mirrored_at_any_size() -> AbstractContextManager[Any]:
    """One triangle of a symmetric product is computed however small it is, by kernels that can, and not just where that
    is quicker: such products are large."""
    return mock.patch.object(triangle, "mirror_clocks", lambda _: -inf)


def config_id(config: TileConfig) -> str:
    """What a parametrized test calls a config: its values alone."""
    return "-".join(map(str, config.values()))


def pair_dtypes(kernel: CudaKernel) -> tuple[DTypeName, ...]:
    """Complex types that the kernel takes as pairs of a real type."""
    return tuple(each.name for each in DTYPES.values() if kernel.takes_pairs and each.part in kernel.accuracy)
