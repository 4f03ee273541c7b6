"""What becomes of lines that a GPU computes again, in a process whose CuPy is replaced, and how they are cut."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.cuda.check import recheck_plan
from worker.cuda.check.recheck_plan import CAPACITY, CROSSED, LISTED, launches

A, B, C = 1, 2, 3  # the addresses there


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.played.recheck"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    words: dict[str, Any] = json.loads(done.stdout)
    return words


def test_what_the_device_decides_is_not_computed_on_the_host(told: dict[str, Any]) -> None:
    """Rows first, of both items in one launch, then columns, for which the operands change places."""
    found = told["right"]
    assert found["happened"] == ["launched", "launched"] and found["worst"] == 0.25
    assert found["places"] == [[A, B, C], [B, A, C]]
    assert told["nothing asked"]["worst"] == 0.0 and told["nothing asked"]["happened"] == []


def test_elements_that_are_left_are_the_host_s_farthest_first(told: dict[str, Any]) -> None:
    assert told["left"]["happened"] == ["launched", "host: element 1 69 7", "host: element 0 3 8"]
    assert told["left"]["worst"] == 0.5
    assert told["left of columns"]["happened"] == ["launched", "host: element 1 8 5"]


def test_a_wrong_element_ends_it(told: dict[str, Any]) -> None:
    assert told["wrong"]["happened"] == ["launched", "host: element 1 69 7"] and told["wrong"]["worst"] == 9.0


def test_the_host_computes_lines_of_which_too_many_are_left(told: dict[str, Any]) -> None:
    happened = told["too many"]["happened"]
    assert len(happened) == 2 + CAPACITY and happened[-1] == "host: 2 rows, 0 columns"
    assert told["too many"]["worst"] == 0.7


def test_what_the_device_cannot_do_is_the_host_s(told: dict[str, Any]) -> None:
    assert told["normwise"]["happened"] == ["host: 2 rows, 1 columns"]


def test_it_stops_between_launches_if_no_one_wants_it_any_more(told: dict[str, Any]) -> None:
    assert told["unwanted"]["worst"] == "no longer wanted" and told["unwanted"]["happened"] == []
    assert told["in parts"]["happened"] == ["launched", "launched"] and told["in parts"]["worst"] == 0.5


def test_the_cores_are_given_up_behind_each_launch(told: dict[str, Any]) -> None:
    assert all(found["given up"] for found in told.values())


@given(
    mask=st.lists(st.lists(st.booleans(), min_size=70, max_size=70), min_size=1, max_size=4),
    crossed=st.integers(1, 300),
    most=st.sampled_from([1, LISTED * 100 * 7 * 2, 1 << 36]),
)
def test_every_line_is_in_one_tile_of_its_item(mask: list[list[bool]], crossed: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recheck_plan, "MAX_TERMS", most)
        found = list(launches(np.array(mask), crossed, 7))
    places = []
    for lines, tiles in found:
        assert len(tiles) == 1 or len(tiles) * LISTED * crossed * 7 <= most
        assert recheck_plan.block_count(recheck_plan.Lines(lines, tiles), crossed) == len(tiles) * -(
            -crossed // CROSSED
        )
        for item, first, count, norm in tiles.tolist():
            assert 0 < count <= LISTED and norm == 0
            places += [(item, line) for line in lines[first : first + count].tolist()]
        assert sum(tiles[:, 2]) == len(lines)
    assert places == [tuple(place) for place in np.argwhere(np.array(mask)).tolist()]
