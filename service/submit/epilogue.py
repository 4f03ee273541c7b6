"""Checks `alpha`, `beta`, `c` and `bias` of a request, which transform A·B before it is delivered."""

from __future__ import annotations

from jobs.errors import InvalidRequest, ShapeMismatch, UnsupportedDType
from jobs.formats.elements import shape_text
from kernels.model.numerics import DTYPES, Problem
from service.bodies.options import MatmulOptions
from service.submit.operand_type import OperandType

FACTORS = ("alpha", "beta")
LOWEST, HIGHEST = -(2**31), 2**31 - 1  # of a factor of an integer product


def beta_of(options: MatmulOptions, has_c: bool) -> float | tuple[float, float]:
    """The factor of C; 1 if C is given without a factor."""
    return (1.0 if has_c else 0.0) if options.beta is None else options.beta


def check_epilogue(
    options: MatmulOptions, problem: Problem, c: OperandType | None, bias: OperandType | None = None
) -> None:
    """Checks the epilogue. `c`, `bias`: given if already known. Raises InvalidRequest, UnsupportedDType,
    ShapeMismatch.
    """
    for name in FACTORS:
        factor = getattr(options, name)
        if factor is not None:
            _check_factor(name, factor, problem)
    if bias is not None:
        _check_bias(bias, problem)
    if c is None:
        return
    if c.dtype != problem.product_dtype:
        raise UnsupportedDType(
            f"c is {c.dtype} but the product of {problem.dtype} operands is {problem.product_dtype}; c must have the "
            "product's element type.",
            field="c",
        )
    if c.shape not in (problem.product_shape, (problem.m, problem.n)):
        one = f", or one {problem.m}×{problem.n} for all of it" if len(problem.product_shape) == 3 else ""
        of_c, of_product = shape_text(c.shape), shape_text(problem.product_shape)
        raise ShapeMismatch(f"c is {of_c} but the product is {of_product}: c must have its shape{one}.", field="c")


def _check_bias(bias: OperandType, problem: Problem) -> None:
    if DTYPES[problem.dtype].is_complex:
        raise UnsupportedDType("A bias is for real products; add it as c instead.", field="bias")
    if bias.dtype != problem.product_dtype:
        raise UnsupportedDType(
            f"bias is {bias.dtype} but the product of {problem.dtype} operands is {problem.product_dtype}; bias must "
            "have the product's element type.",
            field="bias",
        )
    if bias.shape not in ((1, problem.n), (problem.m, 1)):
        raise ShapeMismatch(
            f"bias is {shape_text(bias.shape)} but the product is {shape_text(problem.product_shape)}: bias must be "
            f"1×{problem.n}, to be added to every row, or {problem.m}×1, to every column.",
            field="bias",
        )


def _check_factor(name: str, factor: float | tuple[float, float], problem: Problem) -> None:
    if isinstance(factor, tuple):
        if not DTYPES[problem.dtype].is_complex:
            raise InvalidRequest(
                f"{name} is complex, but products of {problem.dtype} are real; it must be a number.", field=name
            )
        return
    if DTYPES[problem.dtype].is_integer and not (factor.is_integer() and LOWEST <= factor <= HIGHEST):
        raise InvalidRequest(
            f"{name} is {factor:g}, but products of {problem.dtype} are of integers; it must be a whole number from "
            f"{LOWEST} to {HIGHEST}.",
            field=name,
        )
