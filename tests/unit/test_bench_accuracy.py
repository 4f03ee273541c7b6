"""`make bench-accuracy`, on the CPU: what is recorded, and what the page says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bench_accuracy
from benchmarks.operand_kinds import KINDS, relative_error
from benchmarks.tables_accuracy import accuracy


def test_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "accuracy.json"
    asked = ["--device", "cpu", "--sizes", "96", "130", "--kernels", "cpu_blas", "--seed", "7", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["bench_accuracy", *asked])
    bench_accuracy.main()
    record = json.loads(path.read_bytes())
    assert [(row["operands"], row["n"]) for row in record["rows"]] == [(kind, n) for n in (96, 130) for kind in KINDS]
    errors = {(row["operands"], row["n"]): row["errors"]["cpu_blas"] for row in record["rows"]}
    assert all(0 < error < 1e-6 for (kind, _), error in errors.items() if kind != "cancelling halves")
    assert errors["cancelling halves", 96] > 20 * errors["normal", 96]
    assert "`cpu_blas`" in "\n".join(accuracy(path))


def test_the_page_marks_what_is_further_off_than_the_library(tmp_path: Path) -> None:
    rows = [
        {"operands": "normal", "n": 64, "errors": {"cublas": 2e-7, "ours": 1e-7}},
        {"operands": "uniform", "n": 64, "errors": {"cublas": 2e-7, "ours": 3e-7}},
    ]
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"environment": {"recorded_at": "now"}, "device": "GPU", "seed": 1, "rows": rows}))
    told = "\n".join(accuracy(path))
    assert "**3.00e-07**" in told and "**1.00e-07**" not in told and "**2.00e-07**" not in told
    assert "`ours`: no further off than the library in 1 of 2 rows." in told


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_what_they_say(kind: str) -> None:
    a, b = KINDS[kind](128, np.random.default_rng(3))
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape == (128, 128)
    spread = float(np.ptp(np.log2(np.abs(a[a != 0]))))
    assert np.isfinite(a).all() and np.isfinite(b).all()
    assert (spread > 35) is (kind in ("40 binades in a row", "far apart along k"))


def test_a_config_by_name() -> None:
    assert bench_accuracy.named("fp32_emulated:cluster=2") == ("fp32_emulated", {"cluster": 2})
    assert bench_accuracy.named("cublas") == ("cublas", {})
    assert relative_error(np.array([3.0, 4.0]), np.array([0.0, 5.0])) == pytest.approx(10**0.5 / 5)
