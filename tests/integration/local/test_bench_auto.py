"""`make bench-auto` on a CPU, with a few small products."""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure.auto import main
from benchmarks.tables.auto import auto_choices


def test_what_auto_takes_is_measured_beside_all_others(tmp_path: Path) -> None:
    out = tmp_path / "2026-01-01-11.jsonl"
    main(["--device", "cpu", "--shapes", "3", "--most", "200", "--seed", "11", "--out", str(out)])
    heading, how, served, bounds, taken, _ = auto_choices(tmp_path)
    assert heading.startswith("## What `auto` takes")
    assert "3 random float32 products (seed 11; sizes log-uniform from 32 to 200," in how
    assert "a product of each of 3 shapes. At 0 of them a worker measured" in served
    assert "missed" not in bounds, "on a CPU there is one kernel to take"
    assert taken.startswith("Taken: `cpu_blas` 3.")
