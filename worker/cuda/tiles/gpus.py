"""The GPUs of a gang: what multiplies on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cupy

from jobs.settings import Settings
from kernels.model.kernel import DeviceTraits
from worker.cuda.compile import Compiler
from worker.cuda.complex_products import ComplexProducts
from worker.cuda.launch import PreparedKernels
from worker.cuda.library.cublas import Cublas


@dataclass(slots=True)
class Gpu:
    """What multiplies on one device. For one thread at a time."""

    index: int  # among those that the process sees
    compiler: Compiler
    prepared: PreparedKernels
    cublas: Cublas
    composed: ComplexProducts


def gpu_indices(device: str) -> list[str]:
    """The indices in `gpu:0` or `gpus:0,1`; without any, that of the first GPU."""
    return (device.partition(":")[2] or "0").split(",")


def gang(settings: Settings, first: Gpu, traits: Callable[[], DeviceTraits]) -> list[Gpu]:
    """All GPUs of this process, which are alike."""
    return [first, *(_beside(settings, index, traits) for index in range(1, len(gpu_indices(settings.device))))]


def _beside(settings: Settings, index: int, traits: Callable[[], DeviceTraits]) -> Gpu:
    """Another GPU that this process sees."""
    with cupy.cuda.Device(index):
        compiler = Compiler(settings.kernel_cache_dir, settings.compiled_kernels_dir)
        prepared, cublas = PreparedKernels(compiler), Cublas(compiler)
        return Gpu(index, compiler, prepared, cublas, ComplexProducts(compiler, prepared, cublas, traits))


def free_all(gpus: Sequence[Gpu]) -> None:
    """Frees the memory that a product in tiles used on these GPUs."""
    for gpu in gpus:
        with cupy.cuda.Device(gpu.index):
            cupy.get_default_memory_pool().free_all_blocks()
