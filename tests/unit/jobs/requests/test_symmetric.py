"""Which requests are of one matrix by its own transpose, so that one triangle of the product is enough."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef, RandomSpec
from kernels.model.numerics import DTypeName

SHAPE = (30, 20)


def stored(name: str = "x", dtype: DTypeName = "float32", shape: tuple[int, ...] = SHAPE) -> OperandRef:
    return OperandRef(source="matrix", matrix=name, dtype=dtype, shape=shape)


def random(seed: int) -> OperandRef:
    spec = RandomSpec(shape=SHAPE, seed=seed, dtype="float32")
    return OperandRef(source="random", random=spec, dtype="float32", shape=SHAPE)


def of_job(name: str) -> OperandRef:
    return OperandRef(source="job", job=name, dtype="float32", shape=SHAPE)


def is_symmetric(a: OperandRef, b: OperandRef, **fields: Any) -> bool:
    return MatmulRequest(**{"a": a, "b": b, "accuracy": "fp32", "transpose_b": True, **fields}).problem.symmetric


@pytest.mark.parametrize(
    ("one", "other"), [(stored(), stored("y")), (random(1), random(2)), (of_job("j"), of_job("k"))]
)
def test_the_same_matrix_both_ways(one: OperandRef, other: OperandRef) -> None:
    assert is_symmetric(one, one)
    assert is_symmetric(one, one, transpose_a=True, transpose_b=False)
    assert not is_symmetric(one, other)


@pytest.mark.parametrize(
    "fields",
    [
        {"alpha": 2.0},
        {"c": stored("c", shape=(30, 30)), "beta": 1.0},
        {"bias": stored("c", shape=(1, 30))},
        {"activation": "relu"},
        {"output_dtype": "bfloat16"},
    ],
    ids=str,
)
def test_with_more_than_the_product_it_is_computed_whole(fields: dict[str, Any]) -> None:
    assert not is_symmetric(stored(), stored(), **fields)


def test_what_is_not_symmetric() -> None:
    square = stored(shape=(20, 20))
    assert not is_symmetric(square, square, transpose_b=False)  # X·X
    assert not is_symmetric(square, square, transpose_a=True)  # (X·X)ᵀ
    batch = stored(shape=(3, 30, 20))
    assert not is_symmetric(batch, batch)
    assert not is_symmetric(stored(dtype="complex64"), stored(dtype="complex64"))
    in_record = OperandRef(source="inline", dtype="float32", shape=SHAPE)  # nobody knows that they are the same
    assert not is_symmetric(in_record, in_record)
