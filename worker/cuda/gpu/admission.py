"""Checks whether a product fits in the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cupy

from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.outputs import delivered_of
from worker.cuda.complex.arrangement import arranged_bytes
from worker.cuda.digests.read_back import read_back_bytes
from worker.cuda.memory import DeviceMatrix
from worker.cuda.operand_cache import OperandCache
from worker.cuda.pitch import operand_layout, product_layout
from worker.cuda.scaled.arrangement import scaled_bytes
from worker.device.free_memory import FreeMemory
from worker.device.operands import HostOperand
from worker.device.runner import DoesNotFit, Epilogue

SPARE_BYTES = 192 << 20  # left free beside the matrices: cuBLAS's workspace, the check's vectors and sums


def operand_types(problem: Problem) -> tuple[DTypeName, ...]:
    """The types of A, B, and of what is added: C and a bias."""
    return problem.dtype, problem.dtype, problem.product_dtype, problem.product_dtype


def bytes_needed(
    problem: Problem,
    operands: Sequence[HostOperand],
    cache: OperandCache[DeviceMatrix],
    epilogue: Epilogue | None,
    of_kernel: int,
) -> int:
    """The bytes to allocate: `of_kernel`, operands that are not cached on the device, and the product; with an epilogue
    also A·B.
    """
    delivered = delivered_of(problem, None if epilogue is None else epilogue.output)
    need = of_kernel + product_layout(problem).bytes + read_back_bytes(delivered.bytes) + SPARE_BYTES
    if epilogue is not None:
        need += operand_layout(delivered.dtype, delivered.shape).bytes
    if DTYPES[problem.dtype].is_complex:  # the check's own
        need += arranged_bytes(problem)
    need += scaled_bytes(problem)  # likewise
    for operand, dtype in zip(operands, operand_types(problem), strict=False):
        if operand.id is None or cache.get(operand.id) is None:
            need += operand_layout(dtype, operand.shape).bytes
    return need


def free_bytes() -> int:
    """Free memory of the driver plus unused memory of CuPy's pool."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free + cupy.get_default_memory_pool().free_bytes())


_room = FreeMemory(lambda: free_bytes())


def admit(kernel: str, bytes_needed: Callable[[], int], free_all: Callable[[], None]) -> None:
    """Admits a product, freeing cached memory if necessary. Raises DoesNotFit."""
    if _room.has(bytes_needed()):
        return
    free_all()
    need = bytes_needed()
    if need > (free := free_bytes()):
        raise DoesNotFit(
            f"The product needs {need} bytes on the device with {kernel}, and {free} are free; make it smaller, take "
            "another kernel or try later."
        )
