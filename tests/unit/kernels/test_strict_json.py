"""Data files are read whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.strict_json import DataError, parse


@dataclass(frozen=True)
class Leg:
    """Part of a journey."""

    to: str
    km: float | None = None


@dataclass(frozen=True)
class Journey:
    """One of each kind of field that there is."""

    legs: tuple[Leg, ...]
    start: tuple[int, int]
    means: Literal["foot", "boat"]
    stamped: bool = False
    fares: Mapping[Literal["out", "back"], int] = field(default_factory=dict)


GOOD: dict[str, Any] = {"legs": [{"to": "A", "km": 3}, {"to": "B"}], "start": [1, 2], "means": "boat"}


def read(**changes: Any) -> Journey:
    return parse(Journey, json.dumps(GOOD | changes), "journey")


def test_a_good_file() -> None:
    assert read() == Journey((Leg("A", 3.0), Leg("B")), (1, 2), "boat")
    assert read(fares={"out": 4}, stamped=True).fares == {"out": 4}


journeys = st.builds(
    Journey,
    legs=st.lists(st.builds(Leg, st.text(), st.none() | st.floats(allow_nan=False, allow_infinity=False))).map(tuple),
    start=st.tuples(st.integers(), st.integers()),
    means=st.sampled_from(["foot", "boat"]),
    stamped=st.booleans(),
    fares=st.dictionaries(st.sampled_from(["out", "back"]), st.integers()),
)


@given(journeys)
def test_what_was_written_is_read(journey: Journey) -> None:
    assert parse(Journey, json.dumps(asdict(journey)), "journey") == journey


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"wheels": 2}, "journey has no field 'wheels'; it has: legs, start, means, stamped, fares."),
        ({"legs": [{"to": "A", "by": "x"}]}, "journey.legs[0] has no field 'by'; it has: to, km."),
        ({"legs": [{}]}, "journey.legs[0] lacks 'to'."),
        ({"legs": [[]]}, "journey.legs[0] lacks 'to'."),
        ({"legs": [["A", "3"]]}, "journey.legs[0].km is '3'; it must be a finite number."),
        ({"legs": [["A", 3.0, 1]]}, "journey.legs[0] has 3 values; its fields are: to, km."),
        ({"legs": {}}, "journey.legs is {}; it must be a list."),
        ({"legs": ["A"]}, "journey.legs[0] is 'A'; it must be a dict."),
        ({"legs": [{"to": "A", "km": "3"}]}, "journey.legs[0].km is '3'; it must be a finite number."),
        ({"legs": [{"to": "A", "km": float("nan")}]}, "journey.legs[0].km is nan; it must be a finite number."),
        ({"legs": [{"to": "A", "km": 10**400}]}, f"journey.legs[0].km is 1{39 * '0'}; it must be a finite number."),
        ({"legs": [{"to": "A", "km": True}]}, "journey.legs[0].km is True; it must be a finite number."),
        ({"legs": [{"to": None}]}, "journey.legs[0].to is None; it must be a str."),
        ({"start": [1]}, "journey.start has 1 entries; it must have 2."),
        ({"start": [1, True]}, "journey.start[1] is True; it must be a int."),
        ({"start": [1, 2.0]}, "journey.start[1] is 2.0; it must be a int."),
        ({"means": "cart"}, "journey.means is 'cart'; it must be one of: foot, boat."),
        ({"stamped": 1}, "journey.stamped is 1; it must be a bool."),
        ({"fares": {"home": 1}}, "journey.fares is 'home'; it must be one of: out, back."),
        ({"fares": {"out": 1.5}}, "journey.fares.out is 1.5; it must be a int."),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        read(**changes)
    assert str(refused.value) == sentence


def test_a_row_is_an_object_s_values_in_order() -> None:
    assert parse(Leg, '["A", 3.5]', "leg") == parse(Leg, '{"to": "A", "km": 3.5}', "leg")
    assert parse(Leg, '["A"]', "leg") == parse(Leg, '{"to": "A"}', "leg")


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "Expecting value"), ('{"to": "A", "to": "B"}', "'to' is given twice"), ("1", "must be a dict")],
)
def test_text_that_is_no_such_file(text: str, part: str) -> None:
    with pytest.raises(DataError, match=part):
        parse(Leg, text, "leg")
