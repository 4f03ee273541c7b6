"""The first table of docs/performance.md: ours over the library's best, and who is said to be faster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.result_models import CaseResult, Ratio, Results
from benchmarks.kernel_targets import TARGETS, TargetShape
from benchmarks.tables.headline.rows import Headline, HeadlineRun, headlines, losses, tuning_of
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")
OURS = next(case for case in LARGE.cases if (case.kernel, case.n) == ("pipelined", 4096))
BF16 = next(target for target in TARGETS if target.name == "hopper_bf16")


def run(shape: TargetShape, **kernel_ms: float) -> Results:
    """Made up: ours and the library at a shape, or the library alone."""
    found: list[CaseResult] = []
    for kernel, ms in kernel_ms.items():
        rate = 2 * shape.m * shape.n * shape.k / ms / 1e6
        figures = {"kernel_ms": ms, "gflops": rate, "rounds": (), "ci95_lo_us": ms * 990, "ci95_hi_us": ms * 1010}
        ratio = Ratio(value=kernel_ms["cublas"] / ms, lo=kernel_ms["cublas"] / ms * 0.98, hi=kernel_ms["cublas"] / ms)
        named = {"kernel": kernel, "case": kernel, "baseline": "cublas", "dtype": "bfloat16"}
        sizes = {"m": shape.m, "n": shape.n, "k": shape.k}
        found.append(OURS.model_copy(update={**figures, **named, **sizes, "fraction_of_baseline": ratio}))
    return LARGE.model_copy(update={"records": tuple(found)})


def only(n: int, tuning: dict[tuple[str, str, int], dict[str, dict[str, float]]], **more: Results) -> Headline:
    shape = TargetShape(n, n, n)
    runs = {"hopper_bf16": run(shape, hopper_bf16=1.0, cublas=2.0), **more}
    (row,) = headlines(runs, tuning)
    return row


def test_the_best_of_the_library_is_what_ours_is_held_against() -> None:
    whole = TargetShape(4097, 4097, 4097).padded
    lying = only(4097, {})
    assert (lying.how, lying.ratio.value, lying.verdict) == ("", 2.0, "ours")
    padded = only(4097, {}, hopper_bf16_padded=run(whole, cublas=0.8))
    assert (padded.how, padded.verdict) == ("zero-padded", "cuBLAS")
    assert padded.ratio.value == pytest.approx(0.8) and padded.lying_tflops == lying.lying_tflops


def test_tuning_counts_by_what_it_gained_in_its_own_run() -> None:
    times = {"as_it_lies": {"default_ms": 50.0, "tuned_ms": 40.0}, "padded": {"default_ms": 9.0, "tuned_ms": 9.0}}
    tuned = only(4097, {("cublas", "bfloat16", 4097): times})
    assert tuned.how == "tuned" and tuned.ratio.value == pytest.approx(2.0 * 40 / 50)
    elsewhere = only(4097, {("cublas", "bfloat16", 4096): times, ("cublas", "float16", 4097): times})
    assert (elsewhere.how, elsewhere.ratio.value) == ("", 2.0)


@pytest.mark.parametrize(("lo", "hi", "verdict"), [(1.01, 1.2, "ours"), (0.99, 1.2, "even"), (0.8, 0.99, "cuBLAS")])
def test_who_is_faster_is_said_where_the_interval_leaves_no_doubt(lo: float, hi: float, verdict: str) -> None:
    row = Headline("float16", 4096, "hopper_fp16", "1", "1", "1", "", Ratio(value=(lo + hi) / 2, lo=lo, hi=hi))
    assert row.verdict == verdict
    assert ("float16, 4,096: 0.9" in losses([row])) == (verdict == "cuBLAS")
    told = "\n".join(HeadlineRun("h200", "H200", [row]).section())
    assert f"| {verdict} |" in told


def test_no_rows_make_no_section_and_no_record_no_tuning(tmp_path: Path) -> None:
    assert list(HeadlineRun("h200", "H200", []).section()) == [] and headlines({}, {}) == []
    assert tuning_of(None) == {}
    (tmp_path / "h200_library.json").write_text(json.dumps({"rows": [{"kernel": "a", "dtype": "b", "n": 1}]}))
    assert list(tuning_of(tmp_path / "h200_library.json")) == [("a", "b", 1)]
