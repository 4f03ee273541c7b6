"""Checks `scale_a` and `scale_b` of a request against its operands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jobs.errors import InvalidRequest, ShapeMismatch, UnsupportedDType
from jobs.formats.elements import shape_text
from kernels.model.scales import (
    SCALE_DEPTH,
    SCALE_DTYPE,
    SCALE_WIDTHS,
    SCALED_DTYPE,
    block_of,
    scale_shape,
    width_of,
)
from service.bodies.options import MatmulOptions
from service.submit.operand_type import OperandType

NO_SCALES: Mapping[str, OperandType] = MappingProxyType({})


def check_both(has_a: bool, has_b: bool) -> None:
    """Raises InvalidRequest."""
    if has_a != has_b:
        there, missing = ("scale_a", "scale_b") if has_a else ("scale_b", "scale_a")
        raise InvalidRequest(
            f"{there} is given without {missing}; both operands have block scales, or neither has.", field=missing
        )


def check_scales(options: MatmulOptions, a: OperandType, b: OperandType, scales: Mapping[str, OperandType]) -> int:
    """The number of columns of B that share a scale; 0 without scales. The operands must already have been checked
    against each other. Raises UnsupportedDType, ShapeMismatch, InvalidRequest.
    """
    columns = 0
    for name, operand, transposed in (("a", a, options.transpose_a), ("b", b, options.transpose_b)):
        if (scale := scales.get(f"scale_{name}")) is not None:
            columns = _lines_of(name, operand, scale, transposed=transposed)
    if not scales:
        return 0
    for field in ("tolerance", "reproducible"):
        if getattr(options, field):
            raise InvalidRequest(f"Nothing is proven of a product with block scales; leave {field} out.", field=field)
    return columns if "scale_b" in scales else SCALE_DEPTH


def _lines_of(name: str, operand: OperandType, scale: OperandType, *, transposed: bool) -> int:
    field = f"scale_{name}"
    if operand.dtype != SCALED_DTYPE:
        raise UnsupportedDType(
            f"{field} is for {SCALED_DTYPE} operands, and {name} is {operand.dtype}; leave it out.", field=field
        )
    if scale.dtype != SCALE_DTYPE:
        raise UnsupportedDType(f"{field} is {scale.dtype}; scales must be {SCALE_DTYPE}.", field=field)
    width = width_of(name, operand.shape, scale.shape, transposed=transposed)
    if width is not None:
        return width
    one, other = (_expected(operand.shape, block_of(name, each, transposed=transposed)) for each in SCALE_WIDTHS)
    has, of_operand = shape_text(scale.shape), shape_text(operand.shape)
    raise ShapeMismatch(f"{field} is {has} but {name} is {of_operand}: it must be {one}, or {other}.", field=field)


def _expected(shape: tuple[int, ...], block: tuple[int, int]) -> str:
    return f"{shape_text(scale_shape(shape, block))}, one for each {shape_text(block)} block"
