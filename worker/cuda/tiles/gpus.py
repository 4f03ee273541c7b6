"""The GPUs of a gang: what multiplies on each."""

from __future__ import annotations

from collections.abc import Sequence

import cupy

from jobs.settings import Settings
from worker.cuda.compile import Compiler
from worker.cuda.launch import PreparedKernels
from worker.cuda.library.cublas import Cublas
from worker.cuda.tiles.lane import Gpu


def gpu_indices(device: str) -> list[str]:
    """Those of `gpu:0`, or of `gpus:0,1`; without any, the first."""
    return (device.partition(":")[2] or "0").split(",")


def gang(settings: Settings, compiler: Compiler, prepared: PreparedKernels, cublas: Cublas) -> list[Gpu]:
    """All GPUs that this process was given, of which the first one has these already."""
    first = Gpu(0, compiler, prepared, cublas)
    return [first, *(_beside(settings, index) for index in range(1, len(gpu_indices(settings.device))))]


def _beside(settings: Settings, index: int) -> Gpu:
    """That GPU of those that this process sees."""
    with cupy.cuda.Device(index):
        compiler = Compiler(settings.kernel_cache_dir, settings.compiled_kernels_dir)
        return Gpu(index, compiler, PreparedKernels(compiler), Cublas(compiler))


def free_all(gpus: Sequence[Gpu]) -> None:
    """What a product in tiles took of them."""
    for gpu in gpus:
        with cupy.cuda.Device(gpu.index):
            cupy.get_default_memory_pool().free_all_blocks()
