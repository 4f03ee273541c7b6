"""Operands in page-locked host memory, filled by a GPU, because a CPU would take minutes for a hundred gigabytes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import cupy
import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.slot_memory import populate
from kernels.model.numerics import DTypeName

CHUNK_ELEMENTS = 1 << 28


@contextmanager
def page_locked(size: int) -> Iterator[Array]:
    """This many bytes, as uint8."""
    raw = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    address = raw.ctypes.data
    populate(address, size)
    cupy.cuda.runtime.hostRegister(address, size, 0)
    try:
        yield raw
    finally:
        cupy.cuda.runtime.hostUnregister(address)


def matrix(memory: Array, begin: int, shape: tuple[int, int], dtype: DTypeName) -> Array:
    """A matrix in that memory, starting at that byte."""
    elements = np.dtype(STORAGE_DTYPES[dtype])
    size = shape[0] * shape[1] * elements.itemsize
    found: Array = memory[begin : begin + size].view(elements).reshape(shape)
    return found


def fill(array: Array, dtype: DTypeName, seed: int) -> None:
    """Fills it with normal numbers, or with integers from -8 to 8."""
    generator = cupy.random.default_rng(seed)
    flat = array.reshape(-1)
    for start in range(0, flat.size, CHUNK_ELEMENTS):
        count = min(CHUNK_ELEMENTS, flat.size - start)
        if dtype in ("int8", "int32"):
            made = generator.integers(-8, 9, count, dtype=cupy.int32).astype(flat.dtype)
        else:
            made = generator.standard_normal(count, dtype=cupy.float64 if dtype == "float64" else cupy.float32)
            if dtype == "bfloat16":
                made = (made.view(cupy.uint32) >> 16).astype(cupy.uint16)
            elif dtype == "float16":
                made = made.astype(cupy.float16)
        cupy.cuda.runtime.memcpy(flat[start:].ctypes.data, made.data.ptr, made.nbytes, 2)
        del made
    cupy.get_default_memory_pool().free_all_blocks()
