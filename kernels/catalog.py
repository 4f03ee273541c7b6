"""The catalogue: every kernel, in ladder order, in one explicit list.

A kernel is its entry (in `entries/`) and, if it is ours, one file in `cuda/`. Everything else (the API's enum,
/v1/kernels, docs, tests, metrics) follows from this tuple.
"""

from __future__ import annotations

from types import MappingProxyType

from kernels.entries import (
    cluster_split_k,
    complex_as_real,
    fp32_emulated,
    fp64_emulated,
    libraries,
    one_element,
    register_rows,
    register_tiles,
    shared_memory,
    strassen,
    tensor_cores,
    tensor_fp64,
    warp_tiles,
)
from kernels.entries.hopper import fp32 as hopper_fp32
from kernels.entries.hopper import fp64 as hopper_fp64
from kernels.entries.hopper import tensor_cores as hopper
from kernels.model.kernel import Kernel

CATALOG: tuple[Kernel, ...] = (
    *libraries.CPU,
    *one_element.UNCOALESCED,
    *one_element.NAIVE,
    *one_element.UNROLLED,
    *one_element.COARSENED,
    *shared_memory.SHARED,
    *shared_memory.PRIVATIZED,
    *shared_memory.PREFETCH,
    *register_rows.REGISTER_ROWS,
    *register_tiles.REGISTER,
    *register_tiles.VECTORIZED,
    *warp_tiles.WARP_TILED,
    *warp_tiles.PIPELINED,
    *strassen.STRASSEN,
    *warp_tiles.SPLIT_K,
    *cluster_split_k.CLUSTER_SPLIT_K,
    *tensor_cores.WMMA,
    *hopper.HALF,
    *hopper.INT8,
    *hopper.TF32,
    *hopper_fp32.HOPPER_FP32,
    *hopper.FP8,
    *fp32_emulated.FP32_EMULATED,
    *tensor_fp64.TENSOR_FP64,
    *hopper_fp64.HOPPER_FP64,
    *fp64_emulated.FP64_EMULATED,
    *complex_as_real.COMPLEX,
    *libraries.CUBLAS,
    *libraries.FROM_HOST,
    libraries.CUBLASMP,
    *libraries.MORE_EXACT,
)


def _index(kernels: tuple[Kernel, ...]) -> dict[str, Kernel]:
    index: dict[str, Kernel] = {}
    for kernel in kernels:
        if kernel.name in index:
            raise ValueError(f"two catalogue entries are named {kernel.name!r}")
        index[kernel.name] = kernel
    return index


BY_NAME = MappingProxyType(_index(CATALOG))
KERNEL_NAMES: tuple[str, ...] = tuple(BY_NAME)
