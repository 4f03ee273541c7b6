"""How kernels round, in NumPy: each as badly as its arithmetic may."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jobs.formats.elements import Array

BLOCK = 16  # steps of k that tensor cores add at a time
Multiply = Callable[[Array, Array], Array]  # (m, k) and (k, n), in the operands' type


def in_order(a: Array, b: Array) -> Array:
    """Each step rounded, in the order of k."""
    total = np.zeros((len(a), b.shape[1]), a.dtype)
    for step in range(a.shape[1]):
        total += a[:, step, np.newaxis] * b[np.newaxis, step]
    return total


def backwards(a: Array, b: Array) -> Array:
    return in_order(a[:, ::-1], b[::-1])


def in_parts(a: Array, b: Array) -> Array:
    """Parts of k added up afterwards, as split-k has it."""
    parts = [in_order(a[:, at::4], b[at::4]) for at in range(4)]
    total: Array = (parts[0] + parts[1]) + (parts[2] + parts[3])
    return total


def cut(values: Array, place: Array) -> Array:
    """Towards zero, to multiples of 2^place."""
    lowered: Array = np.ldexp(np.trunc(np.ldexp(values, -place)), place)
    return lowered


def cut_to_bits(values: Array, bits: int, smallest: int = -1074) -> Array:
    """To so many significant bits, none below 2^smallest."""
    return cut(values, np.maximum(np.frexp(values)[1] - bits, smallest))


def on_tensor_cores(a: Array, b: Array) -> Array:
    """Exact products of float32 numbers, BLOCK of them and the sum so far aligned to the largest and cut to its 24
    bits, and their sum cut again."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, a.shape[1], BLOCK):
        terms = a[:, start : start + BLOCK, np.newaxis] * b[np.newaxis, start : start + BLOCK]
        terms = np.concatenate([total[:, np.newaxis], terms], axis=1)
        places = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1] - 24
        total = cut_to_bits(cut(terms, places).sum(axis=1), 24)
    rounded: Array = total.astype(np.float32)
    return rounded


def _lowered(bits: int, smallest: int) -> Multiply:
    def multiply(a: Array, b: Array) -> Array:
        lowered = (cut_to_bits(each.astype(np.float64), bits, smallest) for each in (a, b))
        return on_tensor_cores(*lowered)

    return multiply


# Of float32 operands, by kernels of the catalogue that compute so.
LOWERED: Mapping[str, Multiply] = {
    "cublas_tf32": _lowered(11, -136),
    "cublas_bf16": _lowered(8, -133),
    "cublas_fp16": _lowered(11, -24),
}
CONVENTIONAL: Mapping[str, Multiply] = {"in order": in_order, "backwards": backwards, "in parts": in_parts}
