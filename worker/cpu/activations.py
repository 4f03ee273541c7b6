"""Activations on the CPU, in float64."""

from __future__ import annotations

import math

import numpy as np

from jobs.formats.elements import Array
from kernels.model.activations import OF_CUBE, OF_X, SQRT_HALF, ActivationName


def activated(activation: ActivationName, x: Array) -> Array:
    """The activation of every element; NaN stays NaN, and at -∞ all are 0, their limit."""
    if activation == "relu":
        return np.where(x <= 0.0, 0.0, x)
    if activation == "gelu":
        value = 0.5 * x * _erfc(-x * SQRT_HALF)
    elif activation == "silu":
        value = _times_sigmoid(x, x)
    else:
        value = _times_sigmoid(x, x * (OF_X + OF_CUBE * (x * x)))
    return np.where(np.isneginf(x), 0.0, value)


def _times_sigmoid(x: Array, q: Array) -> Array:
    """x / (1 + e^-q), without an e^-q that overflows."""
    power = np.exp(-np.abs(q))
    return np.where(q >= 0.0, x, x * power) / (1.0 + power)


def _erfc(x: Array) -> Array:
    """The C library's, one by one: numpy has none."""
    return np.fromiter(map(math.erfc, x.reshape(-1).tolist()), np.float64, x.size).reshape(x.shape)
