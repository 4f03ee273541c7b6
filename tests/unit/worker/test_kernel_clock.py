"""The time of a product is the device's own: launching lies outside of it. On a device that is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.played.own_process import printed_by

HELD = ["close", "launch", "launch", "launch", "open", "follow"]


@pytest.fixture(scope="module")
def timed() -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = json.loads(printed_by("tests.support.kernels.clocked"))
    return told


def test_the_stream_is_held_until_all_is_on_it(timed: dict[str, dict[str, Any]]) -> None:
    """Three launches of 0.1 ms, each of which takes Python 1 ms."""
    assert timed["loaded"] == {"kernel_ms": 0.3, "happened": HELD}


def test_what_is_not_loaded_yet_is_launched_again(timed: dict[str, dict[str, Any]]) -> None:
    """What goes behind a product goes behind the launch that counts."""
    assert timed["not loaded"] == {"kernel_ms": 0.3, "happened": ["launch"] * 3 + HELD}


def test_a_long_product_is_not(timed: dict[str, dict[str, Any]]) -> None:
    """Launching is little of its time."""
    assert timed["long and not loaded"]["happened"] == ["launch", "follow"]
    assert 50.0 <= timed["long and not loaded"]["kernel_ms"] <= 51.0


def test_where_the_gate_opened_by_itself_it_is_launched_again(timed: dict[str, dict[str, Any]]) -> None:
    again = ["close", "launch", "open", "follow"]
    assert timed["waits for the device"] == {"kernel_ms": 0.1, "happened": again * 2}


def test_a_launch_that_fails_leaves_the_stream_open(timed: dict[str, dict[str, Any]]) -> None:
    assert timed["refused"]["happened"] == ["close", "open"]
