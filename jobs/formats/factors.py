"""Factors of a product: alpha and beta of alpha·A·B + beta·C."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_NUMBER = {"type": "number"}
_PAIR = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}


def read_factor(value: Any) -> float | tuple[float, float]:
    """Parses a factor from a JSON value. Raises ValueError."""
    if isinstance(value, list | tuple) and len(value) == len("ri"):
        real, imaginary = map(_finite, value)
        return real, imaginary
    return _finite(value)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _fits(value):
        raise ValueError("a finite number belongs here, or for complex products a pair of them, [re, im]")
    if int(number := float(value)) != value and isinstance(value, int):
        raise ValueError(
            f"{value} is an integer that float64 does not hold exactly; write it with a point, as {value}.0, to have "
            "it rounded"
        )
    return number


def _fits(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer past float64
        return False


# With a PlainValidator pydantic turns a pair into a list before it writes it, and warns that this is neither type.
Factor = Annotated[
    float | tuple[float, float], BeforeValidator(read_factor), WithJsonSchema({"anyOf": [_NUMBER, _PAIR]})
]


def as_number(factor: float | tuple[float, float]) -> complex:
    """The factor as a float, or as a complex number if it is a pair."""
    return complex(*factor) if isinstance(factor, tuple) else factor
