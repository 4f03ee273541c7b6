"""What is put on a GPU's stream behind a kernel before it has run, in a process whose CuPy is replaced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.played.own_process import printed_by


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    words: dict[str, Any] = json.loads(printed_by("tests.support.played.ahead"))
    return words


def test_the_next_product_waits_on_its_stream_and_not_on_the_host(told: dict[str, Any]) -> None:
    """And what needs the cores idle waits on the host."""
    assert told["cores"] == [
        "given up",
        "second waits on its stream for first",
        "given up",
        "the host waits for second",
        "given up",
    ]


def test_a_fault_while_the_cores_are_given_up_keeps_no_one_waiting(told: dict[str, Any]) -> None:
    assert told["free after a fault"]


def test_a_check_launches_no_second_sketch_unless_it_asks_for_another(told: dict[str, Any]) -> None:
    """How often each sketch was launched. One that is launched for nothing is only time lost; one that is taken for
    another would be a hole in the check."""
    assert told["sketches"] == {
        "as asked for": [1],
        "not ahead": [1],
        "asked for twice": [1, 1],
        "columns left out": [1, 1],
        "of another class": [1, 1],
    }
