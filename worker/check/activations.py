"""Bounds of activations, for the check. They share no code with the computation (`worker/cpu/activations.py`,
`kernels/cuda/common/activations.cuh`) except the bound of their errors.
"""

from __future__ import annotations

import math

import numpy as np

from jobs.formats.elements import Array
from kernels.model.activations import (
    EXACT,
    FLOAT64,
    OF_CUBE,
    OF_X,
    SQRT_HALF,
    ActivationName,
    Arithmetic,
    error_bound,
)


def interval(activation: ActivationName, x: Array, given: Arithmetic = FLOAT64) -> tuple[Array, Array]:
    """The lowest and the highest float64 that a correct computation in the arithmetic `given` may give. At -∞ all are
    0, their limit; NaN stays NaN.
    """
    with np.errstate(all="ignore"):
        value = _value(activation, x)
        value = np.where(np.isinf(x), np.maximum(x, 0.0), value)
        if activation in EXACT:
            return value, value
        off = error_bound(activation, x, value) + error_bound(activation, x, value, given)
        off = np.where(np.isfinite(x), off, 0.0)
        value = np.where(x < given.all_are_0_below, 0.0, value)
        off = np.where(x < given.all_are_0_below, 0.0, off)
        return value - off, value + off


def _value(activation: ActivationName, x: Array) -> Array:
    match activation:
        case "relu":
            return np.where(x < 0.0, 0.0, x)
        case "gelu":
            tails = np.fromiter(map(math.erfc, (np.abs(x) * SQRT_HALF).reshape(-1).tolist()), np.float64, x.size)
            half = 0.5 * x * tails.reshape(x.shape)
            return np.where(x < 0.0, half, x - half)
        case "gelu_tanh":
            return _times_sigmoid(x, x * (OF_X + OF_CUBE * (x * x)))
        case "silu":
            return _times_sigmoid(x, x)


def _times_sigmoid(x: Array, q: Array) -> Array:
    """x·σ(q)."""
    power = np.exp(-np.abs(q))
    share = 1.0 / (1.0 + power)
    return np.where(q < 0.0, power * x * share, x * share)
