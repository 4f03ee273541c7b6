"""Products of every kind that a kernel of a GPU takes, and the devices that they are planned for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kernels.model.architectures import ARCHITECTURES, H200_MULTIPROCESSORS
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import SCALE_WIDTHS

DEVICES: Mapping[str, DeviceTraits] = {
    name: replace(ARCHITECTURES[arch].traits, name=model, multiprocessors=count, gpus=2, libraries=("cublasmp",))
    for name, arch, model, count in (
        ("H200", "sm_90", "NVIDIA H200", H200_MULTIPROCESSORS),
        ("H100", "sm_90", "NVIDIA H100 80GB HBM3", H200_MULTIPROCESSORS),
        ("sm_80", "sm_80", "NVIDIA A100-SXM4-80GB", 108),
        ("sm_120", "sm_120", "NVIDIA GeForce RTX 5090", 170),
    )
}
SIZES = ((33, 17, 29), (601, 499, 60), (1024, 768, 2048))
GROUPS = (100, 0, 37, 200)


def variants(kernel: Kernel, dtype: DTypeName) -> Iterator[tuple[str, Problem]]:
    """With what each is called."""
    if dtype not in kernel.dtypes:
        return
    if not kernel.needs_scales:
        yield from plain(dtype)
    if kernel.scales is not None and (kernel.needs_scales or dtype == "float8_e4m3"):
        for size, columns in ((size, columns) for size in SIZES for columns in SCALE_WIDTHS):
            yield f"scaled {size} by {columns}", Problem(*size, dtype, scale_columns=columns)
    if kernel.groups is not None and dtype in kernel.groups.dtypes:
        yield "grouped", Problem(sum(GROUPS), 256, 512, dtype, group_sizes=GROUPS)


def plain(dtype: DTypeName) -> Iterator[tuple[str, Problem]]:
    """Those without scales and groups."""
    yield from ((f"plain {size}", Problem(*size, dtype)) for size in SIZES)
    large = Problem(*SIZES[-1], dtype)
    yield "batch", Problem.in_batch(96, 80, 64, dtype, 5)
    yield "one A for a batch", Problem(96, 80, 64, dtype, 5, b_batched=True)
    yield "transposed A", replace(large, transpose_a=True)
    yield "transposed B", replace(large, transpose_b=True)
    if DTYPES[dtype].is_complex:
        yield "conjugate transpose", replace(large, transpose_b=True, conjugate_a=True, conjugate_b=True)
    else:
        yield "symmetric", Problem(1024, 1024, 512, dtype, transpose_b=True, symmetric=True)
