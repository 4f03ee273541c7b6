"""What a GPU worker plans once for products that are alike, in a process whose CuPy is replaced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.played.own_process import printed_by


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    words: dict[str, Any] = json.loads(printed_by("tests.support.played.planned_once"))
    return words


def test_a_product_is_read_back_in_the_same_copies_and_blocks(found: dict[str, Any]) -> None:
    """Of any size, however it arrives."""
    assert found["reads"] == []


def test_a_sketch_is_given_the_same_argument(found: dict[str, Any]) -> None:
    assert found["sketches"] == []


def test_whether_a_product_fits_is_known_of_the_latest_alone(found: dict[str, Any]) -> None:
    assert found["fits"] == [True, True, False, True, False, False, True, False, True]
