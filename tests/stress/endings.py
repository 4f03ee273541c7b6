"""What follows A·B in some random products: factors, C, a bias, an activation, another type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from kernels.model.activations import ACTIVATION_NAMES, ActivationName
from kernels.model.fused import FusedEpilogue
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.outputs import SHORTER

# By which exact sums of small integers stay exact in float32; others are for products that are rounded.
EXACT_FACTORS, EXACT_INTEGERS = (1.0, -1.0, 2.0, 0.5, -3.0), (1.0, -1.0, 2.0, -3.0)
EXACT_COMPLEX = (1 + 2j, -1j, 2 + 0j, 0.5 - 1j)
LARGEST_INTEGER = 1000
LEFT_OUT = 0.04  # share of terms with a factor of 0


@dataclass(frozen=True, slots=True)
class Ending:
    """activation(alpha·A·B + beta·C + bias), as a type."""

    alpha: complex
    beta: complex
    c: Literal["", "one", "each"] = ""  # "each": one for each product of the batch
    bias: Literal["", "row", "column"] = ""
    activation: ActivationName | None = None
    output: DTypeName | None = None  # None: the product's
    may_fuse: bool = True


def ending(random: Random, problem: Problem, *, exact: bool) -> Ending:
    """Anything that a request may ask for of such a product."""
    dtype = DTYPES[problem.product_dtype]
    is_float = not dtype.is_integer and not dtype.is_complex
    has_c = random.random() < 0.6
    alpha, beta = (_factor(random, problem.product_dtype, exact=exact) for _ in range(2))
    if random.random() < LEFT_OUT:
        alpha = 0.0
    return Ending(
        alpha,
        beta if has_c else 0.0,
        _c(random, problem) if has_c else "",
        random.choice(("", "row", "column")) if not dtype.is_complex else "",
        random.choice((None, *ACTIVATION_NAMES)) if is_float else None,
        random.choice((None, *SHORTER.get(dtype.name, ()))),
        may_fuse=random.random() < 0.5,
    )


def fused_ending(random: Random, problem: Problem, fused: FusedEpilogue, *, exact: bool) -> Ending:
    """One that a kernel does itself."""
    alpha, beta = (_factor(random, "float32", exact=exact) for _ in range(2))
    return Ending(
        alpha,
        beta if fused.has_c else 0.0,
        _c(random, problem) if fused.has_c else "",
        random.choice(("row", "column")) if fused.has_bias else "",
        fused.activation,
        None if fused.output == problem.product_dtype else fused.output,
    )


def _c(random: Random, problem: Problem) -> Literal["one", "each"]:
    return random.choice(("one", "each")) if problem.a_batched or problem.b_batched else "one"


def _factor(random: Random, dtype: DTypeName, *, exact: bool) -> complex:
    kind = DTYPES[dtype]
    if exact:
        of_type: Sequence[complex] = EXACT_INTEGERS if kind.is_integer else EXACT_FACTORS
        return random.choice(EXACT_COMPLEX if kind.is_complex else of_type)
    if kind.is_integer:
        return float(random.randint(1, LARGEST_INTEGER)) * random.choice((-1, 1))
    if kind.is_complex and random.random() < 0.7:
        return complex(random.uniform(-2, 2), random.uniform(-2, 2))
    return random.uniform(0.1, 2) * random.choice((-1, 1))
