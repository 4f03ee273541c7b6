"""The bare path on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measure.path.bare import bare_path
from benchmarks.measure.path.caller import normal


@pytest.mark.parametrize("shape", [(48, 48), (5, 64, 64)], ids=["one", "batch"])
def test_the_bare_path_makes_the_product(shape: tuple[int, ...]) -> None:
    a, b = normal(shape, 1), normal(shape, 2)
    bare = bare_path("cpu", a, b)
    for measure in (bare.fresh_ms, bare.resident_ms, lambda: bare.resident_per_s(3)):
        bare.product[...] = np.nan
        assert measure() > 0
        np.testing.assert_array_equal(bare.product, a @ b)


def test_a_large_batch_has_more_than_one_product() -> None:
    batch = normal((1025, 2, 2), 3)
    assert batch.shape == (1025, 2, 2) and len(np.unique(batch)) > 2000
