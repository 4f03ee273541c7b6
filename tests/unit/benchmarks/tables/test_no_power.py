"""No power is told that a board does not have: energy is of a steady loop, time of samples with pauses between."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "performance.md"


def test_no_column_is_energy_over_time() -> None:
    lines = PAGE.read_text().splitlines()
    heads = [head for head, rule in pairwise(lines) if rule.startswith("| ---")]
    cells = {cell.strip() for head in heads for cell in head.split("|")}
    assert "mJ" in cells and not [cell for cell in cells if cell == "W" or cell.endswith(", W")]
    assert "so energy over kernel time is not a power" in PAGE.read_text()
