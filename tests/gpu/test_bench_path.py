"""`make bench-path` on a GPU, with small products, and the bare path that it measures beside the service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure.path.__main__ import main
from benchmarks.measure.path.bare import bare_path
from benchmarks.measure.path.caller import normal
from benchmarks.tables.service.path_steps import MEASURED, times

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize("shape", [(48, 48), (5, 64, 64)], ids=["one", "batch"])
def test_the_bare_path_brings_the_product_back(shape: tuple[int, ...]) -> None:
    a, b = normal(shape, 1), normal(shape, 2)
    bare = bare_path("gpu:0", a, b)
    for measure in (bare.fresh_ms, bare.resident_ms, lambda: bare.resident_per_s(3)):
        bare.product[...] = np.nan
        assert measure() > 0
        np.testing.assert_allclose(bare.product, a @ b, rtol=1e-4, atol=1e-4)


def test_every_line_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "gpu_path_now.json"
    short = ["--sizes", "16", "256", "--client-s", "0.5", "--processes", "4", "--shapes", "3", "--batch", "1000"]
    main([*short, "--budget-s", "600", "--out", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert {row["line"] for row in rows} == {
        *("stored", "inline", "h2d", "queued", "clients", "upload", "ranges", "reply", "steps", "new shape", "batch")
    }
    found = times(next(row for row in rows if row["line"] == "steps" and row["n"] == 256))
    on_device_already = {"open", "h2d"}  # what its operands, sent a second time, need no more
    assert all(found[name] > 0 for name in MEASURED if name not in on_device_already), found
