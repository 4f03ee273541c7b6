"""How many light products that are alike share a launch on a GPU, on a device that is not there."""

from __future__ import annotations

from tests.support.played.own_process import printed_by


def test_the_most_of_each_size() -> None:
    """By the host's check: few enough to stay small together, none where it recomputes every element, and else by their
    bytes."""
    printed = printed_by("tests.support.played.max_alike")
    assert printed.split() == ["64", "16", "4", "1", "1", "1", "341", "21", "10", "682", "170"]
