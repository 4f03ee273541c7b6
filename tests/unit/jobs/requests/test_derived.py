"""What a request derives from its fields and keeps: no copy takes it along, and no comparison or record sees it."""

from __future__ import annotations

import copy
import pickle

from jobs.models import MatmulRequest
from jobs.requests.operands import OperandRef


def ref(matrix: str, *shape: int) -> OperandRef:
    return OperandRef(source="matrix", matrix=matrix, dtype="float32", shape=shape)


def test_a_copy_derives_its_own() -> None:
    request = MatmulRequest(a=ref("a", 3, 3), b=ref("a", 3, 3), accuracy="fp32", transpose_b=True)
    assert request.problem.symmetric and request.problem is request.problem
    other = request.model_copy(update={"b": ref("b", 3, 3)})
    assert not other.problem.symmetric
    half = request.model_copy(update={"output_dtype": "float16"})
    assert (request.delivered.dtype, half.delivered.dtype) == ("float32", "float16")


def test_what_was_asked_for_is_no_part_of_it() -> None:
    fresh, asked = (MatmulRequest(a=ref("a", 2, 3), b=ref("b", 3, 4), accuracy="fp32") for _ in range(2))
    assert asked.delivered.shape == (2, 4)
    assert asked == fresh and asked.model_dump_json() == fresh.model_dump_json() and repr(asked) == repr(fresh)
    for again in (copy.copy(asked), copy.deepcopy(asked), pickle.loads(pickle.dumps(asked))):
        assert again == fresh and again.problem == fresh.problem
