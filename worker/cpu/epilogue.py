"""alpha·P + beta·C, a bias and an activation on the CPU, block by block."""

from __future__ import annotations

import numpy as np

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.model.numerics import DTYPES, Problem
from worker.check.elements import core, narrow, widen
from worker.cpu.activations import activated
from worker.device.runner import Epilogue

BLOCK_ELEMENTS = 1 << 16  # with its copies in a core's cache


def add_epilogue(problem: Problem, epilogue: Epilogue, p: Array, out: Array | None = None) -> Array:
    """D of shape `problem.product_shape`, in stored form of the type that is delivered; written to `out` where there is
    one. `p`: A·B.

    Floats: in float64, then rounded to float32 unless that is the type, and from there to 16 bits. Complex numbers:
    their parts as floats. Integers: modulo 2³²."""
    d = np.empty(problem.product_shape, STORAGE_DTYPES[epilogue.output_of(problem)]) if out is None else out
    rows_of_d, rows_of_p = (each.reshape(-1, problem.n) for each in (d, p))
    c = None if epilogue.c is None else core(epilogue.c.elements, transposed=False)
    bias = None if epilogue.bias is None else epilogue.bias.elements
    height = max(1, BLOCK_ELEMENTS // max(1, problem.n))
    with np.errstate(all="ignore"):  # overflow and NaN are answers here, by IEEE rules
        for item in range(problem.batch):
            for start in range(0, problem.m, height):
                end = min(start + height, problem.m)
                at = slice(item * problem.m + start, item * problem.m + end)
                of_c = None if c is None else c[item % len(c), start:end]
                of_bias = bias if bias is None or len(bias) == 1 else bias[start:end]
                rows_of_d[at] = _rows(problem, epilogue, rows_of_p[at], of_c, of_bias)
    return d


def _rows(problem: Problem, epilogue: Epilogue, p: Array, c: Array | None, bias: Array | None) -> Array:
    """In stored form."""
    dtype = problem.product_dtype
    is_integer = DTYPES[dtype].is_integer
    if DTYPES[dtype].is_complex:
        return _complex_rows(epilogue, p, c)
    total = np.zeros(p.shape, np.int64 if is_integer else np.float64)
    if epilogue.alpha != 0.0:
        np.multiply(widen(p, dtype), _factor(epilogue.alpha.real, is_integer), out=total)
    if c is not None:
        added = np.multiply(widen(c, dtype), _factor(epilogue.beta.real, is_integer), dtype=total.dtype)
        total = np.add(total, added, out=total) if epilogue.alpha != 0.0 else added
    if bias is not None:
        np.add(total, widen(bias, dtype), out=total)
    if epilogue.activation is not None:
        total = activated(epilogue.activation, total)
    output = epilogue.output_of(problem)
    return total if is_integer or output == "float64" else narrow(total.astype(np.float32), output)


def _complex_rows(epilogue: Epilogue, p: Array, c: Array | None) -> Array:
    """In stored form. Parts by themselves: no multiplication is fused with an addition, as numpy's own may be."""
    total = np.zeros(p.shape, np.complex128)
    terms = [(epilogue.alpha, p)] if epilogue.alpha != 0.0 else []
    terms += [(epilogue.beta, c)] if c is not None else []
    for number, (factor, each) in enumerate(terms):
        real, imaginary = _scaled(factor, each.real.astype(np.float64), each.imag.astype(np.float64))
        total.real = real if number == 0 else total.real + real
        total.imag = imaginary if number == 0 else total.imag + imaginary
    return total.astype(p.dtype)


def _scaled(factor: complex, real: Array, imaginary: Array) -> tuple[Array, Array]:
    """factor·(real + i·imaginary). A part of the factor that is 0 is left out, so a real one scales both parts."""
    if factor.imag == 0.0:
        return factor.real * real, factor.real * imaginary
    if factor.real == 0.0:
        return -(factor.imag * imaginary), factor.imag * real
    return (
        factor.real * real - factor.imag * imaginary,
        factor.real * imaginary + factor.imag * real,
    )


def _factor(factor: float, is_integer: bool) -> np.int64 | np.float64:
    return np.int64(factor) if is_integer else np.float64(factor)
