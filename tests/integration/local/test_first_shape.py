"""What the first product of a shape takes over the second, measured on a CPU with a few small products."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.measure.first_shape import main, summary


def test_the_first_product_of_a_shape_is_held_against_later_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "first_shape.json"
    main(["--device", "cpu", "--shapes", "3", "--most", "200", "--seed", "11", "--out", str(out)])
    record = json.loads(out.read_text())
    assert record["seed"] == 11 and len({(row["m"], row["n"], row["k"]) for row in record["rows"]}) == 3
    assert {row["kernel"] for row in record["rows"]} == {"cpu_blas"}
    assert all(row["first_ms"] > 0 and row["second_ms"] > row["kernel_ms"] for row in record["rows"])
    assert "3 shapes: the first product took " in capsys.readouterr().out


def test_the_summary_has_median_and_worst() -> None:
    rows = [{"first_ms": first, "second_ms": 2.0} for first in (3.0, 12.0, 2.5)]
    assert summary(rows) == (
        "3 shapes: the first product took 1.00 ms more than the second in the median, 10.00 ms at most "
        "(must: 5 and 50)."
    )
