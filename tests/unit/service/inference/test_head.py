"""The JSON of inference requests. The latest short texts are kept once they are read; nothing else changes by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.errors import InvalidMatrix, InvalidRequest, MalformedBody
from service.inference.head import KEPT_BYTES, KEPT_HEADS, read_head
from service.inference.models import find_model

MATMUL = find_model("matmul")


def text(size: int = 4, **more: Any) -> bytes:
    raw = {"shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": size}}
    return json.dumps({"inputs": [{"name": name} | raw for name in "AB"], **more}).encode()


def test_a_text_is_read_once() -> None:
    first = read_head(text(id="once"), MATMUL, is_alone=False)
    again = read_head(text(id="once"), MATMUL, is_alone=False)
    assert again is first and [header.name for header in first.behind] == ["A", "B"]
    assert first.body.id == "once" and read_head(text(id="other"), MATMUL, is_alone=False).body.id == "other"


def test_a_text_belongs_to_its_model() -> None:
    asked = text(id="of a model")
    kernels = [read_head(asked, find_model(name), is_alone=False).options.kernel for name in ("matmul", "naive")]
    assert kernels == ["auto", "naive"]


def test_a_kept_text_is_still_refused_where_its_length_is_not_announced() -> None:
    asked = text(id="announced")
    read_head(asked, MATMUL, is_alone=False)
    with pytest.raises(MalformedBody, match="does not say where the JSON ends"):
        read_head(asked, MATMUL, is_alone=True)


def test_a_wrong_text_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidMatrix, match=r"A has 5 bytes, but its shape and datatype make 4\.") as refused:
            read_head(text(5), MATMUL, is_alone=False)
        assert refused.value.field == "A"
    wrong = text(parameters={"kernel": "cpu_blas"})
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="The model naive runs the kernel naive"):
            read_head(wrong, find_model("naive"), is_alone=False)


def test_long_texts_and_those_with_nothing_behind_them_are_not_kept() -> None:
    long = text(id="x" * KEPT_BYTES)
    assert read_head(long, MATMUL, is_alone=False) is not read_head(long, MATMUL, is_alone=False)
    one = {"shape": [1, 1], "datatype": "FP32", "data": [1.0]}
    alone = json.dumps({"inputs": [{"name": name} | one for name in "AB"]}).encode()
    assert read_head(alone, MATMUL, is_alone=True) is not read_head(alone, MATMUL, is_alone=True)


def test_only_the_latest_are_kept() -> None:
    first = read_head(text(id="first"), MATMUL, is_alone=False)
    for number in range(KEPT_HEADS):
        read_head(text(id=str(number)), MATMUL, is_alone=False)
    assert read_head(text(id="first"), MATMUL, is_alone=False) is not first
