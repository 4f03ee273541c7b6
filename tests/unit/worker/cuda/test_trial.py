"""Of several ways to launch a product the fastest is found, within a bound on time. On a device that is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.played.own_process import printed_by


@pytest.fixture(scope="module")
def tried() -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = json.loads(printed_by("tests.support.played.tried"))
    return told


def test_short_products_try_all_ways(tried: dict[str, dict[str, Any]]) -> None:
    assert tried["short"] == {"chosen": 2, "launched": [0, 1, 2, 3]}


def test_a_long_product_tries_more_than_the_librarys_own_choice(tried: dict[str, dict[str, Any]]) -> None:
    """At N = 16385 cuBLAS's own choice alone outlasts the trial, and is several times slower than a padded product."""
    assert tried["long"] == {"chosen": 1, "launched": [0, 1]}


def test_a_way_that_is_refused_does_not_count(tried: dict[str, dict[str, Any]]) -> None:
    assert tried["refused"] == {"chosen": 2, "launched": [0, 2]}
