"""Matrices made from a seed: the numbers do not depend on where, or in which pieces, they are generated.

Elements are drawn in row-major order in blocks of BLOCK_ELEMENTS. Block i is drawn from Philox keyed by the seed, with
its counter at i · 2^128, so that any block can be made without those before it. Draws are converted to numbers by
numpy's `Generator`, whose algorithm rarely changes; a test detects if it does. A complex element is two draws: its real
part, then its imaginary part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import prod

import numpy as np

from jobs.errors import InvalidMatrix, InvalidRequest
from jobs.formats.bit_floats import held_as_bits, narrow
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.formats.parser import check_shape
from jobs.requests.operands import Distribution, RandomSpec
from kernels.model.numerics import DTYPES, DTypeName

BLOCK_ELEMENTS = 1 << 18
LARGEST_INTEGER = 8  # products of such integers, summed over any k that fits in memory, are exact in float64


def check_random(spec: RandomSpec, dtype: DTypeName) -> None:
    """Raises InvalidMatrix for an invalid shape, InvalidRequest for a distribution that `dtype` does not support."""
    try:
        check_shape(dtype, spec.shape)
    except InvalidMatrix as error:
        error.field = "random.shape"
        raise
    if DTYPES[dtype].is_integer and spec.distribution != "integers":
        raise InvalidRequest(
            f"The distribution {spec.distribution} has no {dtype} numbers; ask for integers, or for a floating dtype.",
            field="random.distribution",
        )


def generate(spec: RandomSpec, dtype: DTypeName) -> Array:
    """The matrix, in `STORAGE_DTYPES[dtype]`, made on all cores. Raises InvalidMatrix, InvalidRequest."""
    check_random(spec, dtype)
    elements = np.empty(prod(spec.shape), STORAGE_DTYPES[dtype])

    def fill(block: int) -> None:
        part = elements[block * BLOCK_ELEMENTS : (block + 1) * BLOCK_ELEMENTS]
        part[:] = _block(spec, dtype, block, part.size)

    blocks = range(-(-elements.size // BLOCK_ELEMENTS))
    if len(blocks) < 2:
        for block in blocks:
            fill(block)
    else:
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as pool:  # numpy draws without the GIL
            list(pool.map(fill, blocks))
    return elements.reshape(spec.shape)


def generate_chunks(spec: RandomSpec, dtype: DTypeName) -> Iterator[bytes]:
    """The elements as they are stored, a block at a time. Raises InvalidMatrix, InvalidRequest."""
    check_random(spec, dtype)
    total = prod(spec.shape)
    for block, start in enumerate(range(0, total, BLOCK_ELEMENTS)):
        yield _block(spec, dtype, block, min(BLOCK_ELEMENTS, total - start)).tobytes()


def _block(spec: RandomSpec, dtype: DTypeName, block: int, count: int) -> Array:
    """The first `count` elements of a block."""
    generator = np.random.Generator(np.random.Philox(key=spec.seed, counter=[0, 0, block, 0]))
    if DTYPES[dtype].is_complex:
        parts = _DRAW[spec.distribution](generator, DTYPES[dtype].real, 2 * count)
        pairs: Array = parts.astype(STORAGE_DTYPES[DTYPES[dtype].real], copy=False).view(STORAGE_DTYPES[dtype])
        return pairs
    values = _DRAW[spec.distribution](generator, dtype, count)
    if held_as_bits(dtype):
        return narrow(values, dtype)
    return values.astype(STORAGE_DTYPES[dtype], copy=False)


def _normal(generator: np.random.Generator, dtype: DTypeName, count: int) -> Array:
    return generator.standard_normal(count, np.float64 if dtype == "float64" else np.float32)


def _uniform(generator: np.random.Generator, dtype: DTypeName, count: int) -> Array:
    """Multiples of the unit roundoff for types of 16 and 8 bits: others could round to 1, which is not in [0, 1)."""
    if dtype == "float64":
        return generator.random(count, np.float64)
    values = generator.random(count, np.float32)
    step = np.float32(max(DTYPES[dtype].unit_roundoff, 2.0**-24))
    multiples: Array = np.floor(values / step) * step
    return multiples


def _integers(generator: np.random.Generator, dtype: DTypeName, count: int) -> Array:
    values = generator.integers(-LARGEST_INTEGER, LARGEST_INTEGER, count, np.int8, endpoint=True)
    return values.astype(np.float32) if held_as_bits(dtype) else values


_DRAW: dict[Distribution, Callable[[np.random.Generator, DTypeName, int], Array]] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
}
