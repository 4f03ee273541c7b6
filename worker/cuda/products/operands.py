"""Copies a product's operands to the device, unless they are there from an earlier job."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.model.numerics import DTypeName
from worker.cuda.gpu.page_locks import PageLocks
from worker.cuda.memory import TOGETHER_BYTES, DeviceMatrix, Staging, StopWatch, allocate, copy_into, upload
from worker.cuda.operand_cache import Copies, OperandCache
from worker.cuda.pitch import operand_layout
from worker.device.operands import HostOperand


def operands_on_device(
    cache: OperandCache[DeviceMatrix],
    page_locks: PageLocks,
    types: Sequence[DTypeName],
    operands: Sequence[HostOperand],
    copying: StopWatch,
    staging: Staging,
) -> tuple[list[DeviceMatrix], Copies[DeviceMatrix]]:
    """The operands' copies, kept from an earlier job or begun now and timed by `copying`; and these as they may be kept
    for a later one. Operands that are the same matrix have one copy. Small ones that are not to be kept are copied in
    one step. `types`: their element types on the device. Raises cupy's OutOfMemoryError."""
    copies = _copies(cache, page_locks, types, operands, copying, staging)
    return copies, Copies(cache, operands, copies)


def stacked_on_device(
    cache: OperandCache[DeviceMatrix],
    page_locks: PageLocks,
    types: Sequence[DTypeName],
    operands: Sequence[HostOperand],
    copying: StopWatch,
    staging: Staging,
) -> tuple[list[DeviceMatrix], Copies[DeviceMatrix]]:
    """The same for operands of several jobs: each is a batch, whose items are copied there from where they are stored,
    or from the copies that are kept. Those are apart, so that none keeps the memory of a whole batch."""
    each = zip(operands, types, strict=False)
    type_of = {item: dtype for operand, dtype in each for item in operand.items if item.id is not None}
    named = [*type_of]
    copies = _copies(cache, page_locks, [*type_of.values()], named, copying, staging) if named else []
    copy_of = {item.id: copy for item, copy in zip(named, copies, strict=True)}
    batches = []
    for operand, dtype in zip(operands, types, strict=False):
        batches.append(allocate(operand_layout(dtype, operand.shape)))
        with copying:
            for index, item in enumerate(operand.items):
                if item.id is not None:
                    copy_into(batches[-1].item(index), copy_of[item.id])
                else:
                    page_locks.lock(item.memory)
                    upload(item.elements, batches[-1].item(index))
    return batches, Copies(cache, named, copies)


def _copies(
    cache: OperandCache[DeviceMatrix],
    page_locks: PageLocks,
    types: Sequence[DTypeName],
    operands: Sequence[HostOperand],
    copying: StopWatch,
    staging: Staging,
) -> list[DeviceMatrix]:
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
