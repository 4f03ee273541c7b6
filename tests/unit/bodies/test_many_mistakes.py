"""JSON with very many mistakes is refused before each of them costs a KiB."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from jobs.errors import InvalidRequest
from service.bodies.options import MAX_OPTIONS_BYTES, MatmulOptions, RandomOperand, parse_model
from service.pinned.files import ResultsFile

MANY = MAX_OPTIONS_BYTES // 2
KEYS = {f"k{i}": i for i in range(MANY)}
LENGTH = r" has \d+ bytes; 65536 are the most"


@pytest.mark.parametrize(
    ("model", "value", "at", "words"),
    [
        (MatmulOptions, KEYS, "", r"There is no field k0; there are: a, b,.* kernel,"),
        (MatmulOptions, {"config": KEYS}, "", LENGTH),
        (RandomOperand, {"random": {"shape": [2, 2]}, **KEYS}, "a", r"There is no field a\.k0; there are: random\."),
        (RandomOperand, {"random": KEYS}, "a", "a" + LENGTH),
    ],
)
def test_they_are_not_parsed(
    monkeypatch: pytest.MonkeyPatch, model: type[BaseModel], value: dict[str, Any], at: str, words: str
) -> None:
    monkeypatch.setattr(model, "model_validate_json", None)
    with pytest.raises(InvalidRequest, match=words):
        parse_model(model, value, at)


def test_the_first_wrong_record_of_a_file_ends_its_reading() -> None:
    with pytest.raises(ValidationError) as raised:
        ResultsFile.model_validate({"records": [{}] * 5000, "attempts": [{}] * 900, "ceilings": [{}] * 900})
    assert raised.value.error_count() < 100
