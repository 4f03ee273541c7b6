"""Operands of a benchmark on the CPU, from the spec's seed."""

from __future__ import annotations

import numpy as np

from jobs.benchmarks.spec import DataSpec
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.random import generate
from jobs.requests.operands import RandomSpec
from kernels.model.numerics import DTYPES, DTypeName
from worker.check.elements import narrow, widen


def operand(data: DataSpec, dtype: DTypeName, shape: tuple[int, ...], which: int) -> Array:
    """The operand A (`which` 0) or B (1). Integer types get integers whatever the distribution, unless it is zeros."""
    if data.distribution == "zeros":
        return np.zeros(shape, STORAGE_DTYPES[dtype])
    distribution = "integers" if DTYPES[dtype].is_integer else data.distribution
    drawn = generate(RandomSpec(shape=shape, seed=(2 * data.seed + which) % 2**63, distribution=distribution), dtype)
    return drawn if data.scale == 1.0 else stored(widen(drawn, dtype) * data.scale, dtype)


def stored(values: Array, dtype: DTypeName) -> Array:
    """The values in stored form: floats are rounded once, integers rounded and clipped."""
    if DTYPES[dtype].is_integer:
        limits = np.iinfo(STORAGE_DTYPES[dtype])
        values = np.clip(np.rint(values), limits.min, limits.max)
    elif DTYPES[dtype].itemsize < 4:
        return narrow(values.astype(np.float32), dtype)
    return values.astype(STORAGE_DTYPES[dtype])
