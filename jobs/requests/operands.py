"""References to the operands of a product, in requests and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from jobs.base import Strict
from kernels.model.numerics import DTYPES, DTypeName

Distribution = Literal["normal", "uniform", "integers"]
OPERANDS = ("a", "b", "c")  # of a product: alpha·A·B + beta·C, where it has a C; small ones travel in its job's record
SCALES = ("scale_a", "scale_b")
INPUTS = (*OPERANDS, "bias", *SCALES)  # all matrices of a request; a bias and scales are in the store, or random


class RandomSpec(Strict):
    """A matrix made from a seed; the same numbers on every machine."""

    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 256]])
    dtype: DTypeName | None = Field(None, description="Element type; by default the request's `dtype`.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the generator (Philox).", examples=[7])
    distribution: Distribution = Field(
        "normal",
        description="`normal`: mean 0, variance 1. `uniform`: [0, 1). `integers`: -8 to 8. So are both complex parts.",
    )


class OperandRef(Strict):
    """A reference to an operand in a job's record: where its elements are, and their type and shape."""

    source: Literal["matrix", "inline", "random", "job"] = Field(
        description="`matrix`: stored by id. `inline`: came with the request, kept until the job ends. "
        "`random`: made from a seed. `job`: the product of another job."
    )
    matrix: str | None = Field(
        None, description="Id of the stored matrix; null where it is random, in the job's record, or still to come."
    )
    job: str | None = Field(None, description="Id of the job whose product it is; null otherwise.")
    random: RandomSpec | None = Field(None, description="How a random operand is made; null otherwise.")
    dtype: DTypeName = Field(description="Element type.")
    shape: tuple[int, ...] = Field(description="Shape before any transposition.")


def are_transposes(a: OperandRef, b: OperandRef, flags: Mapping[str, bool]) -> bool:
    """Whether they are known to be one real matrix and its transpose, so that their product is symmetric. Matrices in
    the job's record have no id, so they are never recognised.
    """
    if flags["transpose_a"] == flags["transpose_b"] or len(a.shape) != 2 or a != b:
        return False
    return any((a.matrix, a.job, a.random)) and not DTYPES[a.dtype].is_complex
