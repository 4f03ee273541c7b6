"""What callers give for options, operands and forms, as Python programs have them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_client import AsyncClient, Client, InvalidOperand
from matmul_client.core import benchmarks, jobs, matrices, products
from matmul_client.core.elements import to_array
from matmul_client.core.options import plain
from matmul_client.core.wire import Call, Flow, Reply
from tests.unit.client.play import JOB, LOCATION, Played


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (np.float32(0.5), 0.5),
        (np.array(2.0), 2.0),
        (np.complex64(1 - 2j), [1.0, -2.0]),
        (1 - 2j, [1.0, -2.0]),
        (np.bool_(True), True),
        ({"block_m": np.int64(64)}, {"block_m": 64}),
        (range(1, 3), [1, 2]),
        ([np.int32(7), {"m": np.int64(1)}], [7, {"m": 1}]),
        (np.arange(2), [0, 1]),
        (np.float16, "float16"),
        (np.dtype("float16"), "float16"),
        (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
        ("auto", "auto"),
    ],
)
def test_options_may_be_numpys(value: Any, sent: Any) -> None:
    assert json.loads(json.dumps(plain(value))) == sent


def test_a_product_takes_them() -> None:
    played = Played([Reply(202, LOCATION, json.dumps({"job": {"id": JOB}}).encode())])
    options = {"alpha": np.float32(2), "config": {"block_m": np.int64(64)}, "group_sizes": np.array([1, 2])}
    played.run(products.submit(played.call, np.eye(2), np.eye(2), options))
    body = b"".join(map(bytes, played.requests[0].body))
    for option in (b'"alpha": 2.0', b'"block_m": 64', b'"group_sizes": [1, 2]'):
        assert option in body.replace(b"\\", b"")


def test_a_benchmark_takes_them() -> None:
    played = Played([Reply(202, LOCATION, json.dumps({"job": {"id": JOB}}).encode())])
    played.run(benchmarks.start(played.call, None, {"shapes": 2 ** np.arange(6, 8), "dtypes": [np.float32]}))
    assert json.loads(bytes(played.requests[0].body[0])) == {"shapes": [64, 128], "dtypes": ["float32"]}


def test_ragged_lists_are_named() -> None:
    with pytest.raises(InvalidOperand, match="a has rows of different lengths"):
        to_array([[1, 2], [3]], "a")


def test_a_form_that_is_none_is_answered_with_those_that_are() -> None:
    played = Played([])
    with pytest.raises(ValueError, match="no form 'docx'; there are: html, markdown, pdf, zip, svg, png"):
        played.run(benchmarks.rendered(played.call, JOB, "report", "docx"))


@pytest.mark.parametrize("value", [{1, 2}, object(), b"auto", [{"m": {3}}]])
def test_what_json_has_not_is_named(value: Any) -> None:
    with pytest.raises(InvalidOperand, match="cannot be sent as an option: JSON has no "):
        plain(value)


def test_group_sizes_are_whole_numbers() -> None:
    for sizes in ("abc", 3, [1.5]):
        played = Played([])
        with pytest.raises(InvalidOperand, match=r"give whole numbers, such as \[3, 0, 5\]"):
            played.run(products.submit(played.call, np.eye(2), np.eye(2), {"group_sizes": sizes}))


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_what_is_no_time_or_count_is_told_at_once(client: Any) -> None:
    for timeout in (None, math.nan, "soon", 10**400, [1]):
        with pytest.raises(ValueError, match=r"^timeout is .+; give a number of seconds, or math.inf for no deadline"):
            client(timeout=timeout)
    for retries in (None, math.nan, 0.5, "3"):
        with pytest.raises(ValueError, match=r"^max_retries is .+; give a whole number, or 0 for no retries"):
            client(max_retries=retries)
    made = client(timeout=np.float32(2), max_retries=np.int64(3))
    assert made._call(np.float32(0.5)).timeout_s == 0.5 and type(made._call(np.float32(0.5)).deadline) is float
    assert type(made._call(None).deadline) is float and made._call(math.inf).remaining_s == math.inf
    with pytest.raises(ValueError, match="timeout is nan"):
        made._call(math.nan)


def test_a_job_in_place_of_its_id_is_told() -> None:
    job: Any = object()
    flows: tuple[Callable[[Call], Flow[Any]], ...] = (
        lambda call: jobs.find(call, job),
        lambda call: matrices.find(call, job),
        lambda call: benchmarks.compare(call, JOB, job),
        lambda call: benchmarks.compare(call, job, JOB),
    )
    for flow in flows:
        played = Played([])
        with pytest.raises(ValueError, match=r"<object .+ is not an id or a name; give text, such as job\.id\."):
            played.run(flow(played.call))


class Withheld:
    """An array of a library that does not give it away, as of a sparse tensor."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> None:
        raise self._error


@pytest.mark.parametrize("kind", [BufferError, RuntimeError, TypeError, ValueError])
def test_what_dlpack_does_not_carry_is_named(kind: type[Exception]) -> None:
    with pytest.raises(InvalidOperand, match=r"^a cannot be read by DLPack: It is sparse; give an array of numpy"):
        to_array(Withheld(kind("It is\nsparse.")), "a")
