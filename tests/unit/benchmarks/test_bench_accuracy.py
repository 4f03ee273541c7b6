"""`make bench-accuracy`, on the CPU: what is recorded, and what the page says of it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measure import accuracy as bench_accuracy
from benchmarks.measure.element_errors import Float64Reference, relative_error
from benchmarks.operand_kinds import FEW, KINDS, square
from benchmarks.tables.accuracy import accuracy
from jobs.formats.elements import Array
from kernels.model.accuracy import element_bound


def test_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "accuracy.json"
    asked = ["--device", "cpu", "--sizes", "96", "130", "--kernels", "cpu_blas", "--seed", "7", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["bench_accuracy", *asked])
    bench_accuracy.main()
    record = json.loads(path.read_bytes())
    assert [(row["operands"], row["n"]) for row in record["rows"]] == [(kind, n) for n in (96, 130) for kind in KINDS]
    found = {(row["operands"], row["n"]): row for row in record["rows"]}
    for row in record["rows"]:
        assert 0 <= row["errors"]["cpu_blas"] <= row["worst_row"]["cpu_blas"] and row["worst_element"]["cpu_blas"] < 1
    assert all(found[kind, 96]["errors"]["cpu_blas"] < 1e-6 for kind in KINDS if kind != "cancelling halves")
    assert found["cancelling halves", 96]["errors"]["cpu_blas"] > 20 * found["normal", 96]["errors"]["cpu_blas"]
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
    said = (
        "`ours`: no further off than the library, of 2 products, in 1 in the Frobenius norm; not recorded in the worst"
    )
    assert said in told and "Relative error of the worst row: not recorded." in told


def test_no_further_off_than_the_library_is_said_of_the_worst_row_too(tmp_path: Path) -> None:
    errors = {"errors": {"cublas": 2e-7, "ours": 1e-7}, "worst_row": {"cublas": 2e-7, "ours": 3e-5}}
    rows = [
        {"operands": "normal", "n": 64, **errors, "worst_column": errors["errors"], "worst_element": errors["errors"]}
    ]
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"environment": {"recorded_at": "now"}, "device": "GPU", "seed": 1, "rows": rows}))
    told = "\n".join(accuracy(path))
    assert "1 in the Frobenius norm, 0 in the worst row, 1 in the worst column." in told and "**3.00e-05**" in told


@pytest.mark.parametrize("shape", [(128, 96, 130), (1, 1, 1), (3, 40, 2), (2, 1, 301)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_finite_at_any_shape(kind: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = KINDS[kind](m, n, k, np.random.default_rng(3))
    assert a.dtype == b.dtype == np.float32 and a.shape == (m, k) and b.shape == (k, n)
    assert np.isfinite(a).all() and np.isfinite(b).all()


def spread(values: Array) -> float:
    """Binades between the smallest and the largest magnitude."""
    return float(np.ptp(np.log2(np.abs(values[values != 0]))))


def test_kinds_are_what_they_say() -> None:
    made = {kind: square(kind, 128, np.random.default_rng(3)) for kind in KINDS}
    assert spread(made["normal"][0]) < 35 < spread(made["40 binades in a row"][0])
    a, b = made["units along k"]
    assert spread(a) > 35 and 1 < np.abs(a.astype(np.float64) @ b).std() / np.sqrt(128) ** 0.5 < 128
    a, _ = made["units along k, a few rows"]
    assert sum(spread(row) > 25 for row in a) == FEW
    rows = np.abs(made["a few rows of A in other units"][0]).mean(axis=1)
    assert ((rows > 100) | (rows < 0.01)).sum() == FEW
    b = made["a few columns of B in other units"][1]
    columns = np.abs(b).mean(axis=0)
    assert b.flags.c_contiguous and ((columns > 100) | (columns < 0.01)).sum() == FEW
    assert np.count_nonzero(made["1 % non-zero"][0]) < 0.02 * 128**2
    assert (made["embedding"][0].sum(axis=1) == 1).all() and not made["time stamp"][1][0].any()
    a, b = made["a large element that meets zeros"]
    assert a[0, 0] == 1 and np.abs(a[0, 1:]).max() < 2.0**-12 and not b[0].any()
    assert np.count_nonzero(made["a large element that meets one column"][1][0]) == 1
    a, b = made["opposed along k"]
    assert (np.diff(np.abs(a), axis=1) >= 0).all() and (np.diff(np.abs(b), axis=0) <= 0).all()


def test_errors_of_a_product_by_row_column_and_element() -> None:
    rng = np.random.default_rng(1)
    a, b = (each.astype(np.float64) for each in KINDS["normal"](20, 30, 40, rng))
    c = a @ b
    right = Float64Reference(a, b).errors(c, element_bound("fp32", "float32", 40))
    assert max(asdict(right).values()) == 0.0
    c[3] *= 1.5
    c[:, 4] += 10.0
    off = Float64Reference(a, b).errors(c, element_bound("fp32", "float32", 40))
    assert off.worst_row > 0.5 and off.worst_column > 1.0 and off.worst_element > 1e4
    assert off.frobenius == pytest.approx(relative_error(c, a @ b))
    element = abs(c - a @ b) / (4 * 40**0.5 * 2.0**-24 * (abs(a) @ abs(b)) + 2.0**-24 * abs(a @ b))
    assert off.worst_element == pytest.approx(element.max(), rel=1e-5)


def test_an_error_where_the_true_row_is_zero_is_infinite() -> None:
    a, b = np.zeros((2, 3)), np.ones((3, 2))
    bound = element_bound("fp32", "float32", 3)
    assert Float64Reference(a, b).errors(np.zeros((2, 2)), bound).worst_row == 0.0
    assert Float64Reference(a, b).errors(np.array([[0.0, 1.0], [0.0, 0.0]]), bound).worst_row == np.inf


def test_a_config_by_name() -> None:
    assert bench_accuracy.named("fp32_emulated:cluster=2") == ("fp32_emulated", {"cluster": 2})
    assert bench_accuracy.named("cublas") == ("cublas", {})
    assert relative_error(np.array([3.0, 4.0]), np.array([0.0, 5.0])) == pytest.approx(10**0.5 / 5)
