"""The random products that `auto` is held against, and what is said of its choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.result_models import CaseResult, Results
from benchmarks.exactness import is_as_exact
from benchmarks.measure.auto import benchmark_kernels, had, parsed, rivals, taken
from benchmarks.measure.auto_sample import (
    MAX_SIZE,
    MIN_SIZE,
    ODD_SHARE,
    as_served,
    by_tables,
    choices,
    draw,
    not_measured,
)
from benchmarks.tables.auto import auto_choices
from benchmarks.tables.auto_library import beside_the_best_library
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.choose import choose
from tests.support.recorded import recorded_results

H200 = DeviceTraits("gpu", (9, 0), 232448, 132, "NVIDIA H200")
LARGE = recorded_results("large")  # every kernel at two sizes


def only(*kernels: str) -> Results:
    return LARGE.model_copy(update={"records": tuple(case for case in LARGE.records if case.kernel in kernels)})


@given(st.integers(1, 60), st.integers(0, 2**31))
def test_shapes_are_distinct_in_range_and_a_third_of_them_odd(count: int, seed: int) -> None:
    shapes = draw(count, seed)
    assert shapes == draw(count, seed)
    assert len(set(shapes)) == count
    assert all(MIN_SIZE <= size <= MAX_SIZE for shape in shapes for size in shape)
    parities = [{size % 2 for size in shape} for shape in shapes]
    assert all(len(parity) == 1 for parity in parities)
    assert parities.count({1}) == -(-count // ODD_SHARE)


def test_sizes_are_spread_over_doublings() -> None:
    small = [size for shape in draw(300, seed=1) for size in shape if size < (MIN_SIZE * MAX_SIZE) ** 0.5]
    assert 0.4 < len(small) / 900 < 0.6


def test_a_slow_choice_is_held_against_the_fastest_and_the_best_against_itself() -> None:
    slow = {
        one.shape: one
        for one in choices(by_tables(only("vectorized", "cublas")), only("vectorized", "pipelined", "cublas"))
    }
    assert len(slow) == 2
    at_4096 = slow[4096, 4096, 4096]
    assert at_4096.kernel == "vectorized" and at_4096.best_kernel == "cublas"
    assert at_4096.speed < at_4096.best_speed == 1.0 and at_4096.of_best == at_4096.speed
    for one in choices(by_tables(only("cublas")), only("vectorized", "pipelined", "cublas")):
        assert one.kernel == one.best_kernel == "cublas" and one.of_best == 1.0


@pytest.mark.parametrize(("ratio", "counts"), [(0.9, True), (1.1, False)])
def test_what_is_further_off_than_the_library_is_no_rival_and_told_where_taken(ratio: float, counts: bool) -> None:
    """As if `pipelined` made its products of another type's, and were twice as fast as the library."""
    both = only("pipelined", "cublas")
    library = {case.n: case.error_vs_float64 for case in both.records if case.kernel == "cublas"}
    changed = []
    for case in both.records:
        if case.kernel == "pipelined" and case.fraction_of_baseline:
            twice = case.fraction_of_baseline.model_copy(update={"value": 2.0})
            error = (library[case.n] or 0.0) * ratio
            other = {"kernel": "fp32_emulated", "error_vs_float64": error, "fraction_of_baseline": twice}
            changed.append(case.model_copy(update=other))
        else:
            changed.append(case)
    emulated = both.model_copy(update={"records": tuple(changed)})
    best = {one.best_kernel for one in choices(by_tables(only("vectorized", "cublas")), emulated)}
    assert best == {"fp32_emulated" if counts else "cublas"}
    of_emulated = choices(by_tables(emulated), only("cublas"), (emulated,))
    assert [one.error for one in of_emulated] == pytest.approx([ratio, ratio])


def served(*kernels: str) -> list[dict[str, Any]]:
    """As the service tells of a product of each shape, with the first of these kernels at the first of them."""
    cases = [next(case for case in only(kernel).records) for kernel in kernels]
    shapes = list(dict.fromkeys((case.m, case.n, case.k) for case in only(kernels[0]).records))
    return [
        {"m": m, "n": n, "k": k, "kernel": case.kernel, "config": dict(case.config), "why": "auto: it was probed here"}
        for (m, n, k), case in zip(shapes, cases, strict=True)
    ]


def test_what_was_served_is_held_against_all_that_was_measured_and_the_rest_is_to_be_measured() -> None:
    auto, others = only("vectorized", "cublas"), only("pipelined", "cublas")
    told = served("vectorized", "pipelined")
    assert not_measured(told, [auto, others]) == {}
    found = as_served(told, [auto, others])
    assert [case.kernel for case in found.values()] == ["vectorized", "pipelined"]
    both = choices(found, others, (auto,))
    assert [one.kernel for one in both] == ["vectorized", "pipelined"]
    assert both[0].of_best < 1.0
    changed = [told[0] | {"config": {"block_m": 1}}, told[1]]
    assert list(as_served(changed, [auto, others])) == [(told[1]["m"], told[1]["n"], told[1]["k"])]
    (missing,) = not_measured(changed, [auto, others]).items()
    assert missing == (("vectorized", (("block_m", 1),)), [(told[0]["m"], told[0]["n"], told[0]["k"])])


def test_an_error_that_is_not_known_makes_a_kernel_no_equal() -> None:
    (first, *_), library = (only(name).records for name in ("pipelined", "cublas"))
    errors = {case.case: case.error_vs_float64 for case in library}
    tried = first.model_copy(update={"kernel": "fp32_emulated"})
    assert is_as_exact(first, errors) and is_as_exact(tried, {})
    assert not is_as_exact(tried.model_copy(update={"error_vs_float64": None}), errors)


def test_the_section_says_what_was_reached_and_the_worst_choices(tmp_path: Path) -> None:
    auto, others = only("vectorized", "cublas"), only("pipelined", "cublas")
    record = {"seed": 7, "dtype": "float32", "most": 12_288} | {
        name: each.model_dump(mode="json") for name, each in (("auto", auto), ("others", others))
    }
    path = tmp_path / "h200_auto.json"
    path.write_text(json.dumps(record))
    heading, how, bounds, taken, worst = auto_choices(tmp_path)
    assert heading.endswith("on an NVIDIA H200") and "seed 7" in how and "32 to 12,288," in how
    path.write_text(json.dumps({"seed": 7, "auto": record["auto"]}))
    assert list(auto_choices(tmp_path)) == [], "a run that was cut off"
    assert bounds.count("missed") == 3
    assert taken.startswith("Taken: `vectorized` 2.")
    assert worst.count("`vectorized`") == 2


def test_the_section_has_what_was_served_beside_what_tables_alone_say(tmp_path: Path) -> None:
    auto, others = only("vectorized", "cublas"), only("pipelined", "cublas")
    runs = {name: each.model_dump(mode="json") for name, each in (("auto", auto), ("others", others))}
    record = {"seed": 7, "dtype": "float32", "most": 12_288, "served": {"records": served("pipelined", "pipelined")}}
    path = tmp_path / "h200_auto.json"
    path.write_text(json.dumps(record | runs))
    _, _, how, bounds, taken, _ = auto_choices(tmp_path)
    assert "each of 2 shapes. At 2 of them" in how
    assert "| as served | " in bounds and bounds.count("missed") >= 3
    assert taken.startswith("Taken: `pipelined` 2.")


def test_auto_is_held_against_the_faster_of_both_lines_of_the_library(tmp_path: Path) -> None:
    """As if the tuned library were twice as fast as its default choice, and `auto` half again as fast."""

    def at(results: Results, kernel: str, value: float) -> tuple[CaseResult, ...]:
        changed = []
        for case in (case for case in results.records if case.fraction_of_baseline):
            fraction = case.fraction_of_baseline and case.fraction_of_baseline.model_copy(update={"value": value})
            changed.append(case.model_copy(update={"kernel": kernel, "fraction_of_baseline": fraction}))
        return tuple(changed)

    one = only("pipelined")
    auto = one.model_copy(update={"records": at(one, "pipelined", 1.5)})
    others = one.model_copy(update={"records": (*at(one, "cublas_tuned", 2.0), *at(one, "warp_tiled", 1.25))})
    runs = {name: each.model_dump(mode="json") for name, each in (("auto", auto), ("others", others))}
    path = tmp_path / "h200_auto.json"
    path.write_text(json.dumps({"seed": 7, "dtype": "float32", "most": 12_288} | runs))
    _, _, rows = beside_the_best_library([tmp_path])
    (row,) = (line for line in rows.splitlines() if "NVIDIA" in line)
    assert row == "| NVIDIA H200 | float32 | 2 | 0.750 | 0.750 | 2 | 0.625 |"
    del runs["auto"]
    records = [
        {**{name: getattr(case, name) for name in "mnk"}, "kernel": "warp_tiled", "config": case.config}
        for case in one.records
    ]
    looked_up = {"taken": {"records": records[:1]}} | runs
    path.write_text(json.dumps({"seed": 7, "dtype": "float32", "most": 12_288} | looked_up))
    (row,) = (line for line in [*beside_the_best_library([tmp_path])][-1].splitlines() if "NVIDIA" in line)
    assert row == "| NVIDIA H200 | float32 | 1 | 0.625 | 0.625 | 1 | 0.625 |"
    path.write_text(json.dumps({"seed": 7, "dtype": "float32", "most": 12_288, "accuracy": "tf32"} | looked_up))
    assert "| NVIDIA H200 | float32 to tf32 | 1 |" in [*beside_the_best_library([tmp_path])][-1]
    runs["others"]["records"] = []
    path.write_text(json.dumps({"seed": 7, "dtype": "float32", "most": 12_288} | runs))
    assert list(beside_the_best_library([tmp_path])) == []


def test_what_the_tables_take_is_listed_for_each_shape_that_was_measured() -> None:
    found = list(taken(only("pipelined", "cublas")))
    assert {(one["m"], one["n"], one["k"]) for one in found} == {
        (case.m, case.n, case.k) for case in only("cublas").records
    }
    for one in found:
        choice = choose("auto", {}, Problem(one["m"], one["n"], one["k"], "float32"), "fp32", H200)
        assert (one["kernel"], one["config"]) == (choice.kernel.name, choice.config)


def test_a_class_may_be_named_where_the_tables_alone_decide() -> None:
    named = {*rivals("float32", "gpu", "tf32"), "cublas_tf32"}
    assert {one["kernel"] for one in taken(only("cublas"), "tf32")} <= named
    assert parsed(["--out", "x", "--one-run", "--accuracy", "tf32"]).accuracy == "tf32"
    with pytest.raises(SystemExit):
        parsed(["--out", "x", "--tables-only", "--accuracy", "tf32"])


def test_what_a_run_that_was_cut_off_had_measured_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h200_auto_learnt.json"
    path.write_text(json.dumps({"seed": 7, "others": only("pipelined", "cublas").model_dump(mode="json")}))
    shapes = had(path)
    assert shapes and shapes == {(case.m, case.n, case.k) for case in only("cublas").records}
    assert parsed(["--out", "x", "--but", str(path)]).but == path


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_its_benchmark_is_valid(dtype: DTypeName) -> None:
    assert rivals(dtype, "cpu") == ["cpu_blas"]
    names = rivals(dtype, "gpu")
    assert names and "naive" not in names and "cublas" not in names
    both = benchmark_kernels(dtype, "gpu", rivals_only=False)
    assert benchmark_kernels(dtype, "gpu", rivals_only=True) == {"others": both["others"]} and both["auto"] == "best"
    (again,) = benchmark_kernels(dtype, "gpu", rivals_only=True, kernels=names[:1])["others"]
    assert again["kernel"] == names[0]
    for kernels in (*both.values(), [again]):
        BenchmarkSpec.model_validate({"kernels": kernels, "shapes": [32], "dtypes": [dtype]})


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_rivals_of_complex_products(dtype: DTypeName) -> None:
    asked = parsed(["--out", "x", "--rivals-only", "--dtype", dtype])
    assert rivals(asked.dtype, "gpu") == ["complex_as_real", "cublas"] and rivals(asked.dtype, "cpu") == ["cpu_blas"]
    (kernels,) = benchmark_kernels(asked.dtype, "gpu", rivals_only=True).values()
    configs = [{}, {"emulated": 1}] if dtype == "complex128" else "default"
    assert kernels[0] == {"kernel": "complex_as_real", "configs": configs}
    BenchmarkSpec.model_validate({"kernels": kernels, "shapes": [32], "dtypes": [dtype]})


def test_named_kernels_are_measured_in_all_their_configs_and_nothing_else() -> None:
    given = parsed(["--out", "x", "--rivals-only", "--seed", "7", "--kernels", "fp32_emulated"])
    assert benchmark_kernels(given.dtype, "gpu", rivals_only=given.rivals_only, kernels=given.kernels) == {
        "others": [{"kernel": "fp32_emulated", "configs": [{}, *({"min_products": count} for count in (7, 8, 10))]}]
    }


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--kernels", "fp32_emulated"], "--kernels needs --rivals-only"),
        (["--rivals-only", "--kernels", "naive", "hopper_fp32"], "no rivals of float32 there: naive"),
        (["--rivals-only", "--dtype", "float16", "--kernels", "fp32_emulated"], "no rivals of float16"),
        (["--rivals-only", "--device", "cpu", "--kernels", "fp32_emulated"], "no rivals of float32"),
    ],
)
def test_kernels_that_are_no_rivals_are_told(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(["--out", "x", *arguments])
    assert why in capsys.readouterr().err
