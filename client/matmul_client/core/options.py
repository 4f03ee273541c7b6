"""The options of a product: keyword arguments of `matmul` and `submit`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import Any, Literal, SupportsIndex, TypedDict

from matmul_client.core.errors import InvalidOperand, InvalidRequest

Accuracy = Literal["fp8", "bf16", "fp16", "tf32", "fp32", "fp64", "exact", "fp32_normwise"]


Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]  # gelu by the error function, or by tanh
OutputDType = Literal["float16", "bfloat16", "float32", "float64", "int32", "complex64", "complex128"]


class ReportFields(TypedDict, total=False):
    """What a report says beside its figures. All is plain text; an empty line begins a new paragraph."""

    title: str
    author: str
    question: str
    text: str  # an introduction
    conclusion: str


class Options(TypedDict, total=False):
    """The service's documentation of POST /v1/matmul describes each option in full."""

    kernel: str  # a name of `client.kernels()`, or auto, the default
    config: dict[str, int]  # tile parameters of that kernel
    accuracy: Accuracy  # the class of the error that every element meets
    tolerance: float  # instead of accuracy: bound on each element's proven error
    tolerance_kind: Literal["componentwise", "normwise"]
    reproducible: bool  # the same bits on every device
    transpose_a: bool
    transpose_b: bool
    conjugate_a: bool  # with transpose_a, the conjugate transpose
    conjugate_b: bool
    alpha: complex  # the product is alpha·A·B + beta·C; complex of complex products alone
    beta: complex
    c: Any  # a matrix, as a and b are
    bias: Any  # n numbers, added to every row, or a matrix of 1×n or m×1: alpha·A·B + beta·C + bias
    activation: Activation  # of every element of that sum
    output_dtype: OutputDType  # float32 of 16-bit operands, or 16 bits of longer ones
    scale_a: Any  # block scales of 8-bit operands: quantize with per_token_cast_to_fp8 and per_block_cast_to_fp8
    scale_b: Any
    group_sizes: Iterable[SupportsIndex]  # rows of A for each matrix of B in turn, as of jax.lax.ragged_dot
    verify: Literal["freivalds", "off"]


def seconds_of(timeout: Any) -> float:
    """Python's own number, which sockets and event loops want. Raises InvalidRequest."""
    try:
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = nan
    if isnan(seconds):
        raise InvalidRequest(
            f"timeout is {timeout!r:.80}; give a number of seconds, or math.inf for no deadline.", field="timeout"
        )
    return seconds


def retries_of(max_retries: Any) -> int:
    """Raises InvalidRequest."""
    try:
        return operator.index(max_retries)
    except TypeError:
        raise InvalidRequest(
            f"max_retries is {max_retries!r:.80}; give a whole number, or 0 for no retries.", field="max_retries"
        ) from None


def plain(value: Any) -> Any:
    """Options as JSON has them: numpy's numbers as Python's, its element types by name, a complex number as a pair.
    Raises InvalidOperand."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(getattr(value, "type", None), type):  # a dtype
        return value.name
    value = value.tolist() if hasattr(value, "tolist") else value
    match value:
        case complex():
            return [value.real, value.imag]
        case Mapping():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple() | range():
            return [plain(each) for each in value]
        case None | str() | int() | float():
            return value
    raise InvalidOperand(f"{value!r:.80} cannot be sent as an option: JSON has no {type(value).__name__}.")
