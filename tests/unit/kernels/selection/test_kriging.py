"""Interpolation between shapes."""

from __future__ import annotations

import pytest

from kernels.selection.cost_model.kriging import Kriging

PLACES = [(float(place),) for place in range(6)]


def test_a_value_is_like_those_at_the_shapes_nearest() -> None:
    kriging = Kriging(PLACES, (2.1,), 4.0)
    values = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert 0.5 < kriging.value((0, 1, 2, 3, 4, 5), values) < 1.1
    assert abs(kriging.value((0, 4, 5), [0.0, 1.0, 1.0])) < 0.7, "of some of the shapes, by their numbers"


def test_weights_are_one_in_all() -> None:
    for shapes in ((0,), (1, 4), (5, 0, 3)):
        assert Kriging(PLACES, (9.0,), 4.0).value(shapes, [7.0] * len(shapes)) == pytest.approx(7.0)


def test_far_from_all_shapes_and_among_unlike_values_there_is_more_doubt() -> None:
    at, values = (0, 1, 2), [1.0, 1.0, 1.0]
    near, far = (Kriging(PLACES, (place,), 4.0).variance(at, values) for place in (1.5, 12.0))
    assert 0 < near < far < Kriging(PLACES, (12.0,), 4.0).variance(at, [1.0, 3.0, 1.0])
