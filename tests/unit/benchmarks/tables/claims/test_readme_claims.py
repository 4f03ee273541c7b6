"""What README.md says in prose of recorded figures is what the records have."""

from __future__ import annotations

import json

import pytest

from benchmarks.tables.write import README, RESULTS


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cost_of_the_check_is_as_recorded(dtype: str) -> None:
    """Of types that tensor cores multiply it is far more than of float32."""
    rows = json.loads((RESULTS / "check_h200.json").read_text())["rows"]
    (row,) = (row for row in rows if (row["dtype"], row["n"]) == (dtype, 8192))
    share = 100 * row["check_ms"] / (row["product_ms"] + row["check_ms"])
    (line,) = (line for line in README.read_text("utf-8").splitlines() if line.startswith("| no wrong product |"))
    assert f"{share:.0f} % of" in line and dtype in line and "N = 8,192 on an H200" in line
