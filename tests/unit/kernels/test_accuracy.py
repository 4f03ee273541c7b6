"""Bounds of accuracy classes, and what docs/accuracy.md says of them and of recorded campaigns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tables.prove import prove
from benchmarks.tables.write import ACCURACY, RESULTS, accuracy_page
from kernels.catalog import CATALOG
from kernels.model.accuracy import element_bound
from kernels.model.numerics import ACCURACY_NAMES, AccuracyName, DTypeName, Problem, meets
from tools.docs.accuracy import pairs
from worker.check.rounding import rounding_of


@pytest.mark.parametrize(
    ("accuracy", "dtype", "sum_factor", "operand", "output"),
    [
        ("exact", "int8", 0.0, 0.0, 0.0),
        ("fp64", "float64", 40 * 2.0**-53, 0.0, 2.0**-53),
        ("fp32", "float32", 40 * 2.0**-24, 0.0, 2.0**-24),
        ("tf32", "float16", 40 * 2.0**-24, 0.0, 2.0**-11),
        ("tf32", "float32", 40 * 2.0**-24, 2.0**-11, 2.0**-24),
        ("bf16", "float32", 40 * 2.0**-24, 2.0**-8, 2.0**-24),
        ("fp8", "float8_e4m3", 40 * 2.0**-12, 0.0, 2.0**-24),
        ("fp32_normwise", "float32", 11 * 40 * 2.0**-24, 0.0, 2.0**-24),
    ],
)
def test_the_bound_of_a_class(
    accuracy: AccuracyName, dtype: DTypeName, sum_factor: float, operand: float, output: float
) -> None:
    bound = element_bound(accuracy, dtype, 100)
    assert (bound.sum, bound.operand, bound.output) == (sum_factor, operand, output)
    assert (bound.operand_root, bound.operand_value) == (6 * operand, 2 * operand)
    assert bound.normwise is (accuracy == "fp32_normwise")


def test_the_check_rounds_as_the_class_says() -> None:
    """Of every class that a kernel has: the check's roundoffs and those of the promise are the same."""
    seen = set()
    for accuracy, dtype in pairs():
        seen.add(accuracy)
        if accuracy == "exact":
            continue
        rounding, bound = rounding_of(Problem(3, 4, 50, dtype), accuracy), element_bound(accuracy, dtype, 50)
        assert (rounding.accumulate, rounding.operand) == (bound.sum_roundoff, bound.operand)
        assert (rounding.output, rounding.operand_floor) == (bound.output, bound.operand_floor)
        assert (rounding.underflow, rounding.normwise) == (bound.underflow, bound.normwise)
    assert seen == set(ACCURACY_NAMES)


def test_a_stricter_class_has_a_smaller_bound() -> None:
    offered = [(accuracy, dtype) for accuracy, dtype in pairs() if dtype == "float32"]
    for one, dtype in offered:
        for other, _ in offered:
            if one != other and meets(one, other):
                strict, loose = (element_bound(each, dtype, 1000).factors for each in (one, other))
                assert all(a <= b for a, b in zip(strict, loose, strict=True))


def test_every_kernel_is_listed_with_its_classes() -> None:
    text = ACCURACY.read_text()
    for kernel in CATALOG:
        assert f"`{kernel.name}`" in text, kernel.name


def campaign(caught: int, worst: float | str, **more: Any) -> dict[str, Any]:
    fault = {"injected": 120, "above": 100, "caught": caught, "missed": 100 - caught, "worst_missed": worst}
    return {
        "environment": {"recorded_at": "2026-01-02"},
        "device": "Processor",
        "seed": 4,
        "faults": {"one | element": fault},
        "clean": {"products": 2000, "refused": 3},
        "outside_their_class": {"products": 0},
        "scenes": 70,
        **more,
    }


def test_campaigns_stand_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "prove_before_cpu.json").write_text(json.dumps(campaign(40, "inf")))
    alone = "\n".join(prove(tmp_path))
    assert "| 40.0% of 100 | inf |" in alone and "The check: recorded 2026-01-02" in alone
    assert "before" not in alone and "not recorded" not in alone
    (tmp_path / "prove_cpu.json").write_text(json.dumps(campaign(100, 0.0)))
    both = "\n".join(prove(tmp_path))
    assert both.count("### On") == 1 and "| 40.0% of 100 | inf | all of 100 |  |" in both
    assert "The check before: recorded" in both and "| caught, now | worst missed, now |" in both
    assert "| refused | 3 of 2,000 | 3 of 2,000 |" in both


def test_nearly_all_is_not_all(tmp_path: Path) -> None:
    record = campaign(100, 0.0)
    record["faults"]["one | element"] |= {"above": 100_000, "caught": 99_999, "missed": 1, "worst_missed": 1.5}
    (tmp_path / "prove_cpu.json").write_text(json.dumps(record))
    assert "| 99.99% of 100,000 | 1.5 |" in "\n".join(prove(tmp_path))


def test_the_page_is_filled_from_the_records(tmp_path: Path) -> None:
    page = "head\n<!-- recorded: prove -->\nold\n<!-- end -->\nfoot\n"
    assert accuracy_page(page, tmp_path) == page.replace("old", "\nNothing is recorded yet.\n")
    filled = accuracy_page(page, RESULTS)
    assert "one element" in filled and accuracy_page(filled, RESULTS) == filled
