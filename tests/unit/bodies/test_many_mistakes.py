"""JSON with very many mistakes is refused before each of them costs a KiB."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from jobs.errors import InvalidRequest
from service.benchmarks.body import read_benchmark
from service.bodies.options import MAX_OPTIONS_BYTES, options_error, parse_options
from service.bodies.reader import reference
from service.pinned.files import ResultsFile

MANY = MAX_OPTIONS_BYTES // 2


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The texts that pydantic gets to see."""
    seen: list[Any] = []
    for name in ("MatmulOptions", "RandomOperand"):
        monkeypatch.setattr(f"service.bodies.options.{name}.model_validate_json", lambda text, **_: seen.append(text))
    return seen


def test_an_unknown_field_is_named_among_very_many(parsed: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"There is no field k0; there are: a, b,.* kernel,") as raised:
        parse_options({f"k{i}": i for i in range(MANY)})
    assert raised.value.field == "k0"
    with pytest.raises(InvalidRequest, match=r"There is no field a\.k0; there are: random\.") as raised:
        reference({"random": {"shape": [2, 2]}, **{f"k{i}": i for i in range(MANY)}}, "a")
    assert raised.value.field == "a.k0"
    assert not parsed


def test_options_that_are_too_long_are_not_parsed(parsed: list[Any]) -> None:
    for document in ({"group_sizes": [""] * MANY}, {"config": {str(i): "" for i in range(MANY)}}):
        with pytest.raises(InvalidRequest, match=r"The body without elements has \d+ bytes; 65536 are"):
            parse_options(document)
    with pytest.raises(InvalidRequest, match=r"a has \d+ bytes; 65536 are"):
        reference({"random": {"shape": [""] * MANY}}, "a")
    assert not parsed


def test_the_first_wrong_record_of_a_file_ends_its_reading() -> None:
    document = json.dumps({"records": [{}] * 5000, "attempts": [{}] * 900, "ceilings": [{}] * 900})
    with pytest.raises(ValidationError) as raised:
        ResultsFile.model_validate_json(document)
    assert raised.value.error_count() < 100


def test_very_many_mistakes_are_counted() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(list[int]).validate_python(["x"] * 3000)
    told = options_error(raised.value, BaseModel, "tags")
    assert str(told) == "tags has 3000 mistakes, too many to name one." and told.field == "tags"


def test_a_benchmark_may_be_longer() -> None:
    sizes = [*range(1, 4097)]
    body = json.dumps({"kernels": ["cpu_blas"], "shapes": [{"m": sizes, "n": [1], "k": sizes}] * 2})
    assert len(body) > MAX_OPTIONS_BYTES
    assert len(read_benchmark(body.encode()).forms["cpu"].shapes) == 2
