"""What a request with a bias, an activation or an output type comes to: its problem, its bytes, how it is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef, RandomSpec
from kernels.model.numerics import DTypeName

M, K, N = 4, 8, 16


def ref(dtype: DTypeName, *shape: int) -> OperandRef:
    return OperandRef(source="random", random=RandomSpec(shape=shape), dtype=dtype, shape=shape)


def request(dtype: DTypeName, **fields: Any) -> MatmulRequest:
    return MatmulRequest(a=ref(dtype, M, K), b=ref(dtype, K, N), accuracy="fp32", **fields)


@pytest.mark.parametrize(
    ("dtype", "fields", "problem", "delivered", "elements"),
    [
        # elements: bytes of A and B, of them widened, of D, and of A·B where it is not D
        ("float32", {}, "float32", "float32", (4, 0, 4, 0)),
        ("float32", {"output_dtype": "float32"}, "float32", "float32", (4, 0, 4, 0)),
        ("float32", {"output_dtype": "bfloat16"}, "float32", "bfloat16", (4, 0, 2, 4)),
        ("float64", {"activation": "gelu"}, "float64", "float64", (8, 0, 8, 8)),
        ("float16", {"output_dtype": "float32"}, "float32", "float32", (2, 4, 4, 0)),
        ("bfloat16", {"output_dtype": "float32", "activation": "silu"}, "float32", "float32", (2, 4, 4, 4)),
        ("float8_e4m3", {"output_dtype": "float16"}, "float8_e4m3", "float16", (1, 0, 2, 4)),
    ],
)
def test_what_is_computed_delivered_and_charged(
    dtype: DTypeName, fields: dict[str, Any], problem: str, delivered: str, elements: tuple[int, int, int, int]
) -> None:
    asked = request(dtype, **fields)
    of_operands, widened, of_d, of_p = elements
    assert (asked.problem.dtype, asked.delivered.dtype, asked.delivered.shape) == (problem, delivered, (M, N))
    assert asked.matrix_bytes == (of_operands + widened) * (M * K + K * N) + (of_d + of_p) * M * N
    assert asked.has_epilogue is (of_p > 0) is asked.goes_whole


def test_a_bias_is_an_operand() -> None:
    asked = request("float32", bias=ref("float32", 1, N), c=ref("float32", M, N), beta=1.0)
    assert [*asked.operands] == ["a", "b", "c", "bias"] and asked.goes_whole
    assert request("float32", bias=ref("float32", 1, N)).has_epilogue
    assert not request("float32", alpha=2.0).goes_whole and request("float32", alpha=2.0).has_epilogue
    assert asked.matrix_bytes == 4 * (M * K + K * N + 3 * M * N + N)


def test_only_who_uses_them_has_them_stored() -> None:
    """A worker of the version before runs all others, and gives back what has a field that it does not know."""
    new: dict[str, Any] = {"bias": ref("float32", 1, N), "activation": "relu", "output_dtype": "float16"}
    plain = set(json.loads(request("float32").model_dump_json(exclude_defaults=True)))
    assert not plain & new.keys()
    for name, value in new.items():
        stored = json.loads(request("float32", **{name: value}).model_dump_json(exclude_defaults=True))
        assert stored.keys() - plain == {name}


def test_a_complex_factor_is_stored_as_a_pair() -> None:
    """Without a warning of pydantic's, which a test would fail by."""
    asked = request("complex64", alpha=(0.0, 1.0))
    text = asked.model_dump_json(exclude_defaults=True)
    assert json.loads(text)["alpha"] == [0.0, 1.0]
    assert MatmulRequest.model_validate_json(text) == asked
