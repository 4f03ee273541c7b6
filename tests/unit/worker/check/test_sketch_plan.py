"""What of a product's matrices can be digested as they are projected, and how the work is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
