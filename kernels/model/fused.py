"""Epilogues that a kernel applies to its sums before it stores them, instead of a separate pass over the product.
docs/decisions/0064-fused-epilogues.md says when this is used, and how such a product is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.model.activations import ActivationName
from kernels.model.numerics import DTYPES, DTypeName

LARGEST_FACTOR, SMALLEST_FACTOR = 2.0**64, 2.0**-64  # of alpha and beta: float32 keeps their products normal for long


@dataclass(frozen=True, slots=True)
class FusedEpilogue:
    """Z = alpha·A·B + beta·C + bias, of float32 sums in registers, rounded once. C and the bias are of D's type. D is
    Z, or activation(Z) of Z as it was rounded, and then both are stored. What is compiled in; factors come with the
    launch."""

    output: DTypeName  # D's type
    has_c: bool = False
    has_bias: bool = False
    activation: ActivationName | None = None

    def defines(self, dtype: DTypeName) -> tuple[str, ...]:
        """Compiler options, for operands of `dtype`."""
        macros = ["EPILOGUE"]
        macros += ["HAS_ADDEND"] * self.has_c + ["HAS_BIAS"] * self.has_bias
        if self.activation is not None:
            macros += ["HAS_ACTIVATION", f"ACTIVATION_{self.activation.upper()}"]
        if self.output != DTYPES[dtype].product:
            macros.append(f"OUTPUT_{self.output.upper()}")
        return tuple(f"-D{macro}" for macro in macros)


def may_scale(factor: float) -> bool:
    """Whether float32 holds such a factor, to a rounding, and its products with sums stay within range."""
    return SMALLEST_FACTOR <= abs(factor) <= LARGEST_FACTOR
