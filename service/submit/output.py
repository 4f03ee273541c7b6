"""Checks whether a product of such operands supports the requested `activation` and `output_dtype`."""

from __future__ import annotations

from jobs.errors import InvalidRequest, UnsupportedDType
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.outputs import WIDENED, outputs_of
from service.bodies.options import MatmulOptions


def check_output(options: MatmulOptions, dtype: DTypeName) -> None:
    """`dtype`: of the operands. Raises InvalidRequest, UnsupportedDType."""
    kind = DTYPES[dtype]
    if options.activation is not None and (kind.is_integer or kind.is_complex):
        raise InvalidRequest(
            f"activation is {options.activation}, but products of {dtype} operands are not of real floats; leave it "
            "out.",
            field="activation",
        )
    known = outputs_of(dtype)
    if options.output_dtype not in (None, *known):
        *first, last = known
        may = f"may be {', '.join(first)} or {last}" if first else f"is {last}"
        raise UnsupportedDType(
            f"output_dtype is {options.output_dtype}, but the product of {dtype} operands {may}.", field="output_dtype"
        )


def check_proven(options: MatmulOptions, problem: Problem, field: str) -> None:
    """Refuses output options together with a demand (`field`): bounds are proven only for alpha·A·B + beta·C in the
    product's own type. Raises InvalidRequest.
    """
    for name, is_given in (
        ("an activation", options.activation is not None),
        (f"the type {options.output_dtype}", options.output_dtype not in (None, problem.product_dtype)),
    ):
        if is_given:
            raise InvalidRequest(
                f"Nothing is proven of a {problem.dtype} product with {name}; leave {field} out, or that.", field=field
            )


def not_multiplied(kernel: Kernel, dtype: DTypeName) -> UnsupportedDType:
    """`dtype`: what the operands are multiplied as."""
    takes = ", ".join(kernel.dtypes)
    if dtype == "float32" and {*WIDENED} & {*kernel.dtypes}:
        return UnsupportedDType(
            f"{kernel.name} does not multiply float32 operands, nor 16-bit ones with output_dtype float32, which are "
            f"multiplied as float32; it takes {takes}.",
            field="kernel",
        )
    return UnsupportedDType(f"{kernel.name} does not multiply {dtype} operands; it takes {takes}.", field="kernel")
