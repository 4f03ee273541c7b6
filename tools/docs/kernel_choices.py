"""The table of docs/which-kernel.md: which kernels take an element type, to which accuracy, on which GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import DTYPES
from tools.markdown import table

FIRST = "warp_tiled"  # rungs below it are there to be learned from
COLUMNS = ("Operands", "Accuracy", "Hopper", "Ampere and newer", "Any NVIDIA GPU", "cuBLAS", "CPU")


def kernel_choices() -> str:
    return table(COLUMNS, _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for dtype in DTYPES:
        classes = dict.fromkeys(kernel.accuracy[dtype] for kernel in _worth_naming() if dtype in kernel.accuracy)
        own = DTYPES[dtype].accuracy
        for accuracy in sorted(classes, key=lambda name: name != own):
            fit = [kernel for kernel in _worth_naming() if kernel.accuracy.get(dtype) == accuracy]
            named = f"`{accuracy}`, the default" if accuracy == own else f"`{accuracy}`"
            columns = ([kernel for kernel in fit if _column(kernel) == name] for name in COLUMNS[2:])
            yield f"`{dtype}`", named, *map(_names, columns)


def _worth_naming() -> Iterator[Kernel]:
    reached = False
    for kernel in CATALOG:
        reached = reached or kernel.name == FIRST
        if reached or not isinstance(kernel, CudaKernel):
            yield kernel


def _column(kernel: Kernel) -> str:
    if isinstance(kernel, ComposedKernel):
        return "Any NVIDIA GPU"
    if not isinstance(kernel, CudaKernel):
        return "CPU" if kernel.device_class == "cpu" else "cuBLAS"
    return "Hopper" if kernel.min_compute_capability >= (9, 0) else _older(kernel)


def _older(kernel: CudaKernel) -> str:
    return "Ampere and newer" if kernel.min_compute_capability >= (8, 0) else "Any NVIDIA GPU"


def _names(kernels: Iterable[Kernel]) -> str:
    return ", ".join(f"`{kernel.name}`" for kernel in kernels)
