"""The first table of docs/performance.md: ours over the library's best, and who is said to be faster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.result_models import CaseResult, Ratio, Results
from benchmarks.kernel_targets import TARGETS, TargetShape
from benchmarks.tables.headline.rows import Headline, HeadlineRun, Tuned, headlines, losses, tuning_of
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


def test_sizes_at_which_tuning_had_no_time_are_named() -> None:
    ratio = Ratio(value=1.0, lo=0.9, hi=1.1)
    rows = [Headline("bfloat16", n, "hopper_bf16", "700", "700", "700", "tuned", ratio) for n in (8192, 16384)]
    told = "\n".join(HeadlineRun("h200", "H200", rows).section())
    assert "little or nothing else was tried: bfloat16, 16,384." in told
    elsewhere = [replace(one, tuned="elsewhere") for one in rows]
    assert "tried" not in "\n".join(HeadlineRun("h200", "H200", elsewhere).section())


def test_no_rows_make_no_section_and_no_record_no_tuning(tmp_path: Path) -> None:
    assert list(HeadlineRun("h200", "H200", []).section()) == [] and headlines({}, {}) == []
    assert tuning_of(None) == {}
    (tmp_path / "h200_library.json").write_text(json.dumps({"rows": [{"kernel": "a", "dtype": "b", "n": 1}]}))
    assert list(tuning_of(tmp_path / "h200_library.json")) == [("a", "b", 1)]


def row(lo: float, hi: float, *, operands: str = "float16", n: int = 4096, tuned: Tuned = "here") -> Headline:
    ratio = Ratio(value=(lo + hi) / 2, lo=lo, hi=hi)
    return Headline(operands, n, "hopper_fp16", "1", "1", "1", "", ratio, tuned)


def test_the_first_page_tells_of_a_loss_only_where_there_is_one() -> None:
    """An interval that has 1 in it is no loss, however low its middle; nor is the smallest of all gains."""
    won, even, lost = row(2.9, 3.1), row(0.6, 1.1), row(0.9, 0.98)
    assert "It also loses" not in HeadlineRun("h200", "H200", [won, even]).words()
    told = HeadlineRun("h200", "H200", [won, even, lost]).words()
    assert "3.0 times cuBLAS" in told and "reaches 0.94 of cuBLAS" in told


def test_odd_sizes_of_16_bit_types_are_counted_not_asserted() -> None:
    odd = [row(1.02, 1.04, n=4097), row(0.9, 0.98, n=2047), row(0.9, 1.1, n=8193)]
    assert "In 2 of 3 rows of 16-bit types at odd sizes" in losses([*odd, row(0.9, 0.98)])
    assert "odd sizes" not in losses([odd[0], row(0.9, 0.98), row(0.9, 0.98, operands="float64", n=2047)])


def test_it_is_told_where_the_library_was_not_tuned_in_the_same_rounds() -> None:
    assert "Measured by default" not in "".join(HeadlineRun("h200", "H200", [row(1.1, 1.2)]).section())
    rows = [row(1.1, 1.2), row(1.1, 1.2, n=2048, tuned="nowhere"), row(1.1, 1.2, n=1024, tuned="elsewhere")]
    told = "".join(HeadlineRun("h200", "H200", rows).section())
    assert "not recorded: float16, 2,048." in told and "counts here: float16, 1,024." in told
    times = {"as_it_lies": {"default_ms": 50.0, "tuned_ms": 40.0}}
    assert only(4096, {}).tuned == "nowhere"
    assert only(4096, {("cublas", "bfloat16", 4096): times}).tuned == "elsewhere"


def test_a_row_is_named_with_its_kernel_where_another_has_the_same_operands() -> None:
    lost, won = row(0.9, 0.98), replace(row(1.1, 1.2), kernel="hopper_bf16")
    assert "float16, 4,096, hopper_fp16: 0.94" in losses([lost, won]) and "float16, 4,096: 0.94" in losses([lost])
