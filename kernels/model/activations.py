"""Activations that may follow a product, and bounds on their errors when computed in float64 or in float32.

Two computations of an activation may differ by the errors of their libraries' functions. The bounds here are of one
computation, in the worst case; docs/decisions/0058-bias-activation-output.md derives them, and
docs/decisions/0075-fused-activations.md those in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
ActivationName = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATION_NAMES: tuple[ActivationName, ...] = get_args(ActivationName)

SQRT_HALF = 0.7071067811865476
# gelu_tanh is x·σ(q), the sigmoid of q = x·(OF_X + OF_CUBE·x²): 0.5·(1 + tanh(q/2)) is σ(q).
OF_X = 1.5957691216057308  # 2·√(2/π)
OF_CUBE = OF_X * 0.044715

SMALLEST = 2.0**-1074  # of float64: subnormal numbers are that far apart


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic in which an activation is computed."""

    unit: float  # half a unit of the last place, relative
    smallest: float  # what a result near zero is off by
    of_quotient: float  # units that a quotient is off by beyond its rounding
    all_are_0_below: float


FLOAT64 = Arithmetic(2.0**-53, SMALLEST, 0.0, -1e300)
FLOAT32 = Arithmetic(2.0**-24, 4.0 * 2.0**-149, 3.0, -256.0)
MAX_RELATIVE = 1e6  # beyond it the function is 0 in float64
EXACT: frozenset[str] = frozenset({"relu"})


def error_bound(activation: ActivationName, x: Array, value: Array, arithmetic: Arithmetic = FLOAT64) -> Array:
    """An upper bound on |computed - exact| for finite `x`; `value` is the computed value. Libraries are allowed more
    error than they state: two units of the last place for exp, where CUDA and glibc state one, and eight for erfc,
    where both state five.
    """
    if activation in EXACT:
        return np.zeros_like(x)
    below = np.minimum(x, 0.0)  # above 0 what is off in an argument is off by less in the result
    square = below * below
    if activation == "gelu":
        relative = 2.0 * square + 20.0
    elif activation == "silu":
        relative = np.full_like(x, 12.0 + arithmetic.of_quotient)
    else:
        relative = 6.0 * np.abs(below) * (OF_X + OF_CUBE * square) + 15.0 + arithmetic.of_quotient
    relative = np.minimum(relative, MAX_RELATIVE) * arithmetic.unit
    return np.asarray(relative * np.abs(value) + (1.0 + np.abs(x)) * arithmetic.smallest)
