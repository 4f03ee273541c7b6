"""How well a product fills the tiles and waves of a kernel's launch."""

from __future__ import annotations

from functools import lru_cache

from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from kernels.resources import records_of

CROWD = 0.7  # blocks that share a multiprocessor take so much longer: to the power of how many there are
_Config = tuple[tuple[str, int], ...]


def filled(kernel: CudaKernel, config: TileConfig, problem: Problem, device: DeviceTraits) -> float:
    """Elements of the product over the time that its blocks take, in units of one block alone: speed follows it where
    only the shape changes."""
    return _filled(kernel.name, tuple(config.items()), problem, device.compute_capability, device.multiprocessors)


@lru_cache(maxsize=32_768)
def _filled(name: str, config: _Config, problem: Problem, capability: tuple[int, int], multiprocessors: int) -> float:
    kernel, multiprocessors = BY_NAME[name], max(multiprocessors, 1)
    assert isinstance(kernel, CudaKernel)
    elements = problem.batch * problem.m * problem.n
    tile = dict(config)
    launch = kernel.arrange(kernel.inner(problem, tile), tile)
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if blocks < multiprocessors:  # a library leaves as many idle: speed over it follows what the tiles waste alone
        return elements * multiprocessors / blocks
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    resident = 1 if launch.resident else _resident(name, config, problem.dtype, capability, threads)
    together, rest = divmod(-(-blocks // multiprocessors), resident)
    return float(elements / (together * resident**CROWD + rest**CROWD))


@lru_cache(maxsize=4096)
def _resident(name: str, config: _Config, dtype: DTypeName, capability: tuple[int, int], threads: int) -> int:
    """Blocks of so many threads that share a multiprocessor, by what the kernel was compiled to; 1 where unknown."""
    kernel, records = BY_NAME[name], records_of(name)
    record = records.find(dict(config), dtype) if records else None
    usage = record.usage.get(f"sm_{capability[0]}{capability[1]}") if record else None
    shape = next((one for one in ARCHITECTURES.values() if one.compute_capability == capability), None)
    if usage is None or shape is None:
        return 1
    assert isinstance(kernel, CudaKernel)
    return max(shape.resident_blocks(threads, usage.registers, kernel.shared_bytes(dict(config), dtype)), 1)
