"""What follows a product on the device of `tests/support/played`: memory of this process, and numpy for kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.kernels.played_complex import lying


def play_epilogue(dtype: Any, options: Sequence[str], arguments: Any) -> None:
    """By numpy, of numbers for which that is exact; with a place for a count, the check of it. `options`: the program's
    macros."""
    *addresses, of_bias, m, n = map(int, arguments[:6])
    pitches, strides, batch = map(int, arguments[6:9]), map(int, arguments[9:12]), int(arguments[12])
    alpha, beta = (float(np.uint64(word).view(np.float64)) for word in arguments[13:15])
    row_step, column_step = map(int, arguments[15:17])
    output = np.dtype(np.float16) if "-DOUTPUT_FLOAT16" in options else dtype
    p, c, d = (
        lying(address, of, (batch, m, n), (stride, pitch, 1))
        for address, of, pitch, stride in zip(addresses, (dtype, dtype, output), pitches, strides, strict=True)
    )
    bias = lying(of_bias, dtype, (1, m, n), (0, row_step, column_step)) if "-DHAS_BIAS" in options else 0
    total = alpha * p + beta * c + bias
    made = (np.maximum(total, 0) if "-DACTIVATION_RELU" in options else total).astype(output)
    if len(arguments) == 18:
        ctypes.cast(int(arguments[17]), ctypes.POINTER(ctypes.c_uint64))[0] = np.count_nonzero(made != d)
    else:
        d[:] = made
