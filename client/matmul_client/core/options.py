"""What a product can be asked for with, as keywords of `matmul` and `submit`."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Accuracy = Literal["fp8", "bf16", "fp16", "tf32", "fp32", "fp64", "exact", "fp32_normwise"]


class Options(TypedDict, total=False):
    """The service's documentation of POST /v1/matmul says more of each."""

    kernel: str  # a name of `client.kernels()`, or auto, the default
    config: dict[str, int]  # tile parameters of that kernel
    accuracy: Accuracy  # the error class that every element meets
    tolerance: float  # in place of accuracy: what each element's proven error must be within
    tolerance_kind: Literal["componentwise", "normwise"]
    reproducible: bool  # the same bits on every device
    transpose_a: bool
    transpose_b: bool
    conjugate_a: bool  # with transpose_a, the conjugate transpose
    conjugate_b: bool
    alpha: complex  # the product is alpha·A·B + beta·C; complex of complex products alone
    beta: complex
    c: Any  # a matrix, as a and b are
    verify: Literal["freivalds", "off"]
