"""What of a product's matrices can be digested as they are projected, and how the work is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.check.sketch import RUN
from worker.check.verify import group_width
from worker.cuda.check.sketch_plan import MAX_UNITS, Geometry, can_digest, plan

SQUARE = Geometry("float32", (False, False), 1024, 1024, 1024, 1, 1, 1, 1, 1024)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (True, True, True)),
        ({"transposed": (True, False)}, (False, True, True)),
        ({"transposed": (False, True)}, (True, False, True)),
        ({"m": 7}, (True, True, True)),
        ({"k": 1000, "width": 768}, (False, True, True)),
        ({"n": 1000, "width": 1000}, (True, False, False)),
        ({"n": 2048, "width": 1000}, (True, False, False)),
        ({"dtype": "int8"}, (False, False, True)),  # a chunk of it is half a block
        ({"m": 1 << 18}, (False, True, False)),  # too many sums to keep
    ],
)
def test_rows_of_whole_blocks_are_digested(changed: dict[str, object], expected: tuple[bool, bool, bool]) -> None:
    assert can_digest(replace(SQUARE, **changed)) == expected  # type: ignore[arg-type]


def test_sums_of_blocks_take_a_sixteenth_of_the_matrices() -> None:
    without, planned = plan(SQUARE), plan(replace(SQUARE, digested=(True, True, True)))
    assert planned.parts == (256, 256, 256) and without.parts == (0, 0, 0)
    assert planned.bytes - without.bytes == 3 * (1 << 22) // 16 + 3 * 256 * 8


def test_a_tall_product_has_no_more_units_than_a_large_one() -> None:
    tall = plan(replace(SQUARE, m=1 << 24, n=64, width=64))
    assert tall.units < 4 * MAX_UNITS + (1 << 24) // 256


@settings(max_examples=200, deadline=None)
@given(n=st.integers(1, 40_000), k=st.integers(1, 20_000))
def test_groups_of_columns(n: int, k: int) -> None:
    """At most about k columns, and not less than a third of what there might be; in whole runs of the host's."""
    widest, width = max(k, 64) if k < RUN else k // RUN * RUN, group_width(n, k)
    assert widest <= 3 * width <= 3 * widest
    assert width < RUN or width % RUN == 0 or k < RUN
    assert width == widest or n > width


@pytest.mark.parametrize("k", [100, 256, 512, 1000, 2048, 4096, 8192, 16384])
def test_no_group_has_a_few_columns_where_a_product_is_just_wider_than_k(k: int) -> None:
    """Errors that have one sign would exceed the tolerance of such a group."""
    for n in range(k + 1, k + 300, 7):
        width = group_width(n, k)
        assert 4 * (n - (n - 1) // width * width) >= width
