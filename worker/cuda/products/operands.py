"""Copies a product's operands to the device, unless they are there from an earlier job."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.model.numerics import DTypeName
from worker.cuda.gpu.page_locks import PageLocks
from worker.cuda.memory import TOGETHER_BYTES, DeviceMatrix, Staging, StopWatch, allocate, upload
from worker.cuda.operand_cache import OperandCache
from worker.cuda.pitch import operand_layout
from worker.device.operands import HostOperand


def operands_on_device(
    cache: OperandCache[DeviceMatrix],
    page_locks: PageLocks,
    types: Sequence[DTypeName],
    operands: Sequence[HostOperand],
    copying: StopWatch,
    staging: Staging,
) -> list[DeviceMatrix]:
    """The operands' copies, kept from an earlier job or begun now and timed by `copying`. Operands that are the same
    matrix have one copy. Small ones that are not to be kept are copied in one step. `types`: their element types on the
    device. Raises cupy's OutOfMemoryError."""
    if not any(operand.id for operand in operands):
        layouts = [operand_layout(dtype, each.shape) for each, dtype in zip(operands, types, strict=False)]
        if sum(each.bytes for each in layouts) <= TOGETHER_BYTES:
            arrays = (operand.elements for operand in operands)
            return staging.upload_together([*zip(arrays, layouts, strict=True)], copying)
    copies: list[DeviceMatrix] = []
    for operand, dtype in zip(operands, types, strict=False):
        same = next((i for i, other in enumerate(operands[: len(copies)]) if other.id == operand.id), None)
        if operand.id is not None and same is not None:
            operand.known_digest(operands[same].expected_digest)
            copies.append(copies[same])
        elif operand.id is not None and (kept := cache.get(operand.id)) is not None:
            operand.known_digest(kept.digest)
            copies.append(kept.copy)
        else:
            copies.append(allocate(operand_layout(dtype, operand.shape)))
            page_locks.lock(operand.memory)
            with copying:
                upload(operand.elements, copies[-1])
    return copies
