"""What docs/performance.md and README.md say of the fast kernels' targets, and that these are of kernels there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analysis.result_models import CaseResult, Results
from benchmarks.kernel_targets import AUTO, CURVES, PADDED_TO, TARGETS, Target, TargetShape, plotted
from benchmarks.measure.kernels import Kept, specs
from benchmarks.tables import plot_targets
from benchmarks.tables.plot_targets import draw, lines
from benchmarks.tables.targets import beside, kernel_targets, target_bounds
from benchmarks.tables.write import pictures, readme, readme_part
from jobs.benchmarks.cases import problems
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.catalog import BY_NAME
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")
RATIO = next(case for case in LARGE.cases if (case.kernel, case.n) == ("pipelined", 4096)).fraction_of_baseline
MARKED = "before\n<!-- recorded: beside cuBLAS -->\nold\n<!-- end -->\nafter"


def faster(run: Results, times: float, **fields: object) -> Results:
    """Made up: the library so many times as fast as it was recorded."""

    def made(case: CaseResult) -> CaseResult:
        if case.case != case.baseline or not (case.gflops and case.kernel_ms):
            return case.model_copy(update=fields)
        ends = {name: (getattr(case, name) or 0.0) / times for name in ("ci95_lo_us", "ci95_hi_us")}
        figures = {"gflops": case.gflops * times, "kernel_ms": case.kernel_ms / times, "rounds": ()}
        return case.model_copy(update={**figures, **ends, **fields})

    return run.model_copy(update={"records": tuple(made(case) for case in run.records)})


@pytest.mark.parametrize("target", (*TARGETS, *CURVES), ids=lambda target: target.name)
def test_a_target_is_of_a_kernel_that_takes_its_type_and_is_measured_by_valid_benchmarks(target: Target) -> None:
    assert target.kernel == AUTO or target.dtype in BY_NAME[target.kernel].dtypes
    found = {name: BenchmarkSpec.model_validate(spec) for name, spec in target.specs.items()}
    pitched, *others = found.values()
    padded = found.get(target.padded_name)
    dense = [spec for spec in others if spec is not padded]
    assert {(p.m, p.n, p.k, p.batch) for p in problems(pitched)} == set(target.by_shape)
    assert pitched.kernels and pitched.data.layout == "padded"
    odd = {shape for shape in target.by_shape if shape.n % 2}
    assert bool(odd) == bool(dense)
    for spec in dense:
        assert spec.data.layout == "dense" and {(p.m, p.n, p.k, p.batch) for p in problems(spec)} == odd
    assert (padded is not None) == (bool(odd) and target.baseline == "auto" and target.tuned_library is None)
    if padded is not None:
        assert padded.baseline == "none" and padded.kernels == (target.library,)
        assert {(p.m, p.n, p.k) for p in problems(padded)} == {shape.padded[:3] for shape in odd}
        assert all(size % PADDED_TO == 0 for p in problems(padded) for size in (p.m, p.n, p.k))


def test_targets_have_bounds_and_energy_and_come_before_the_curves() -> None:
    for target in TARGETS:
        held = [*filter(None, target.bounds.values()), *([target.mean] if target.mean else [])]
        assert held and all(must <= aim for must, aim in held)
        assert all(spec["energy"]["enabled"] for spec in target.specs.values())
    names = [name for name, _ in specs(None)]
    assert len(set(names)) == len(names), "results would be kept under one name"
    first = [name for target in TARGETS for name in target.specs]
    assert names[: len(first)] == first
    assert names[-1] == [name for curve in CURVES for name in curve.specs][-1]
    assert [name for name, _ in specs(["fp32_emulated"])][:2] == ["fp32_emulated", "fp32_emulated_curve"]
    measured = {"hopper_bf16": {"complete": True}, "hopper_fp16": {"complete": False}}
    assert [name for name, _ in specs(None, measured)] == [name for name in names if name != "hopper_bf16"]


def test_a_curve_has_every_config_that_auto_may_want_beside_the_library() -> None:
    (curve,) = (one for one in CURVES if one.kernel == "fp32_emulated")
    for name, spec in curve.specs.items():
        if name == curve.padded_name:
            continue
        asked, *_ = spec["kernels"]
        emulated = BY_NAME[asked["kernel"]]
        assert [emulated.resolve_config(config)["min_products"] for config in asked["configs"]] == [6, 7, 8, 10]
        assert spec["baseline"] == "auto"


def test_target_and_curve_together_have_every_size_of_the_plot_once() -> None:
    for curve in CURVES:
        (target,) = (one for one in TARGETS if one.kernel == curve.kernel and not one.products)
        assert not set(curve.by_shape) & set(target.by_shape)
        drawn = {shape.n for shape in (*curve.by_shape, *target.by_shape)}
        assert drawn >= set(plotted(curve.dtype)) >= {1024, 1025, 8192, 8193}
    assert {16_384, 16_385} <= set(plotted("bfloat16")) and 16_384 not in plotted("float32")


@pytest.mark.parametrize(("must", "aim", "said"), [(0.5, 0.9, "aim"), (0.5, 5.0, "reached"), (4.0, 5.0, "missed")])
def test_a_ratio_is_held_against_what_it_must_and_what_it_aims_at(must: float, aim: float, said: str) -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4096: (must, aim)})
    heading, _, speeds, _, states = kernel_targets({"pipelined": LARGE}, [target])
    assert heading.endswith("on an NVIDIA H200")
    assert RATIO is not None
    ratio = f"| {RATIO.value:.3f} | {RATIO.lo:.3f} to {RATIO.hi:.3f} |"
    assert ratio in speeds and "aim" not in speeds
    *_, held = target_bounds({"pipelined": LARGE}, [target])
    assert f"{ratio} {must:g} | {aim:g} | {said} |" in held
    assert states.count("| `pipelined` | 4096 |") == 1


@pytest.mark.parametrize(("times", "better"), [(2.0, "dense"), (0.5, "padded")])
def test_the_ratio_is_over_the_librarys_better_rows(times: float, better: str) -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4097: (1.0, 2.0)})
    runs = {target.name: LARGE, target.dense_name: faster(LARGE, times, layout="dense")}
    (one,) = beside(target, runs)
    assert one.best is not None and one.best.layout == better and one.ratio is not None
    alone = next(beside(target, {target.name: LARGE})).ratio
    assert alone is not None
    if better == "padded":
        assert one.ratio == alone
    else:
        assert one.ratio.value == pytest.approx(alone.value / times, rel=0.01)
        assert one.ratio.lo <= one.ratio.value <= one.ratio.hi
    told = "\n".join(kernel_targets(runs, [target]))
    assert one.library_dense is not None and one.library_dense.gflops
    assert f"| {one.library_dense.gflops / 1e3:.1f} | not recorded |  | {one.ratio.value:.3f} |" in told


def test_a_bound_is_reached_by_the_intervals_lower_end() -> None:
    assert RATIO is not None and RATIO.lo < RATIO.value
    between = (RATIO.lo + RATIO.value) / 2
    target = Target(kernel="pipelined", dtype="float32", bounds={4096: (between, 5.0)})
    assert f"| {between:g} | 5 | missed |" in _table("pipelined", target)


def test_beside_the_library_on_padded_operands_only_useful_operations_count() -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4097: (1.0, 2.0)})
    sizes = {"m": 4160, "n": 4160, "k": 4160}
    library = next(case for case in LARGE.cases if case.n == 4096 and case.case == case.baseline)
    runs = {target.name: LARGE}
    for padded_ms, is_best in ((4.0, False), (2.0, True)):
        case = library.model_copy(update={**sizes, "kernel_ms": padded_ms})
        runs[target.padded_name] = LARGE.model_copy(update={"records": (case,)})
        (one,) = beside(target, runs)
        assert (one.best is one.library_padded) == is_best
        assert is_best or one.ratio == one.ours.fraction_of_baseline
    ratio = one.ratio
    assert ratio is not None and one.ours.kernel_ms and ratio.value == pytest.approx(2.0 / one.ours.kernel_ms)
    told = "\n".join(kernel_targets(runs, [target]))
    assert f"| {2 * 4097**3 / 2.0 / 1e9:.1f} |" in told and f"| {ratio.value:.3f} |" in told
    assert "not recorded" in _table("pipelined", target) and "not recorded" not in told


def test_a_size_that_was_not_measured_is_told_and_a_kernel_that_was_not_is_left_out() -> None:
    some = Target(kernel="pipelined", dtype="float32", bounds={4096: (1.0, 1.1), 6000: (1.0, 1.1)})
    other = Target(kernel="hopper_bf16", dtype="bfloat16", bounds={4096: (1.0, 1.1)})
    told = "\n".join(kernel_targets({"pipelined": LARGE}, [some, other]))
    assert "| `pipelined` | 6000 | not measured |" in told
    assert "hopper_bf16" not in told
    assert list(kernel_targets({"pipelined": LARGE}, [other])) == []


@pytest.mark.parametrize(("must", "said"), [(0.001, "reached"), (4.0, "missed")])
def test_a_mean_is_told_in_a_row_of_its_own_where_every_size_was_measured(must: float, said: str) -> None:
    target = Target(kernel=AUTO, dtype="float32", products="large", bounds={4096: None}, mean=(must, 5.0))
    first = next(case for case in LARGE.cases if case.n == 4096 and case.case != case.baseline)
    assert first.fraction_of_baseline is not None
    told = _table("auto_large", target)
    mean = [line for line in told.splitlines() if "geometric mean" in line][-1]  # of the bounds
    cells = [cell.strip() for cell in mean.strip("|").split("|")]
    assert [cell for cell in cells if cell] == [
        "`auto`",
        "geometric mean",
        f"{first.fraction_of_baseline.value:.3f}",
        f"{first.fraction_of_baseline.lo:.3f} at least",
        f"{must:g}",
        "5",
        said,
    ]
    assert f"| `{first.kernel}` | 4096 |" in told
    more = replace(target, bounds={4096: None, TargetShape(16, 8192, 8192): None})
    assert "geometric mean" not in _table("auto_large", more)
    assert "16×8192×8192 | not measured |" in _table("auto_large", more)


def _table(name: str, target: Target) -> str:
    return "\n".join(part for made in (kernel_targets, target_bounds) for part in made({name: LARGE}, [target]))


def test_the_page_says_when_kernels_were_not_measured_together() -> None:
    among = [Target(kernel="pipelined", dtype="float32", products=name, bounds={4096: (0.5, 1.0)}) for name in "ab"]
    job = LARGE.job.model_copy(update={"finished_at": datetime(2026, 1, 2, 3, 4, tzinfo=UTC)})
    later = job.model_copy(update={"finished_at": datetime(2026, 1, 2, 9, 4, tzinfo=UTC)})
    runs = {
        f"pipelined_{name}": LARGE.model_copy(update={"job": one}) for name, one in zip("ab", (job, later), strict=True)
    }
    apart, together = "from 2026-01-02 03:04 UTC to 2026-01-02 09:04 UTC", "until 2026-01-02 03:04 UTC"
    assert apart in "\n".join(kernel_targets(runs, among))
    assert together in "\n".join(kernel_targets(dict.fromkeys(runs, runs["pipelined_a"]), among))


# ---- the run, and its picture ----
def test_a_run_that_is_cut_off_has_left_what_it_measured(tmp_path: Path) -> None:
    path = tmp_path / "h200_vs_cublas.json"
    kept = Kept(path)
    kept.keep("nothing_yet", {"records": []})
    assert not path.exists()
    kept.keep("first", {"records": [1]})
    kept.keep("second", {"records": [2]})
    kept.keep("second", {"records": [2, 3]})
    assert json.loads(path.read_text()) == {"first": {"records": [1]}, "second": {"records": [2, 3]}}
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    again = Kept(path, json.loads(path.read_text()))
    again.keep("second", {"records": [4]})
    assert json.loads(path.read_text()) == {"first": {"records": [1]}, "second": {"records": [4]}}


def made_up() -> Mapping[str, Results]:
    """The recorded float32 run twice, at its own sizes and at twice those, as if it had been one of hopper_bf16."""
    renamed = LARGE.model_copy(
        update={
            "records": tuple(
                case.model_copy(update={"kernel": "hopper_bf16"} if case.kernel == "pipelined" else {})
                for case in LARGE.records
                if case.kernel in ("pipelined", "cublas")
            )
        }
    )
    sizes = {name: {"m": 8192 + odd, "n": 8192 + odd, "k": 8192 + odd} for odd, name in enumerate(("even", "odd"))}
    twice = renamed.model_copy(
        update={
            "records": tuple(case.model_copy(update=sizes["odd" if case.n % 2 else "even"]) for case in renamed.records)
        }
    )
    return {"hopper_bf16": renamed, "hopper_bf16_dense": faster(renamed, 1.5), "hopper_bf16_curve": twice}


@pytest.fixture
def two_sizes_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_targets, "ENOUGH", 2)


def test_a_kernel_of_few_sizes_has_no_panel() -> None:
    assert plot_targets.picture(made_up()) is None


def test_lines_join_target_and_curve_and_keep_odd_sizes_apart(two_sizes_are_enough: None) -> None:
    found = lines("hopper_bf16", made_up(), (*TARGETS, *CURVES))
    assert {name: [n for n, _ in line] for name, line in found.items()} == {
        "ours": [4096, 8192],
        "ours, odd N": [4097, 8193],
        "cuBLAS": [4096, 8192],
        "cuBLAS by default, odd N, padded rows": [4097, 8193],
    }
    (panel, spare) = draw(made_up()).axes
    assert panel.get_title() == "hopper_bf16, bfloat16 operands"
    assert len(panel.get_lines()) == 4 and not spare.get_visible()


@pytest.mark.parametrize(("error", "drawn"), [(0.5, True), (2.0, False)])
def test_a_kernel_made_of_other_products_is_drawn_where_it_is_as_exact(error: float, drawn: bool) -> None:
    errors = {case.case: case.error_vs_float64 or 0.0 for case in LARGE.cases}

    def renamed(case: CaseResult) -> CaseResult:
        """As if it were that kernel's, off by so many times what the library is."""
        fields = {"kernel": "fp32_emulated", "error_vs_float64": error * errors[case.baseline or case.case]}
        return case.model_copy(update=fields) if case.kernel == "hopper_bf16" else case

    runs = {
        name.replace("hopper_bf16", "fp32_emulated"): run.model_copy(
            update={"records": tuple(map(renamed, run.records))}
        )
        for name, run in made_up().items()
    }
    found = lines("fp32_emulated", runs, (*TARGETS, *CURVES))
    assert "cuBLAS" in found and ("ours" in found) == ("ours, odd N" in found) == drawn


def test_the_picture_follows_the_record_and_the_readme_shows_it(tmp_path: Path, two_sizes_are_enough: None) -> None:
    assert pictures(tmp_path) == {}
    assert readme(MARKED, readme_part(tmp_path)) == MARKED.replace("old\n", "")
    record = {name: run.model_dump(mode="json") for name, run in made_up().items()}
    (tmp_path / "h200_vs_cublas.json").write_text(json.dumps(record))
    drawn = pictures(tmp_path)
    assert sorted(drawn) == ["h200_headline.svg", "h200_vs_cublas.svg"]
    assert b"cuBLAS by default, odd N, padded rows" in drawn["h200_vs_cublas.svg"]
    assert pictures(tmp_path) == drawn, "the same record gives the same bytes"
    shown = readme(MARKED, readme_part(tmp_path))
    assert "](docs/images/h200_headline.svg)" in shown and "times cuBLAS at its best" in shown
    assert shown.startswith("before\n") and shown.endswith("<!-- end -->\nafter")
    (tmp_path / "h100_vs_cublas.json").write_text(json.dumps(dict(list(record.items())[: len(record) // 2])))
    assert readme(MARKED, readme_part(tmp_path)) == shown, "a record of few kernels says little"


def test_a_kernel_held_against_another_says_which() -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4096: (0.5, 0.9)}, baseline="warp_tiled")
    assert "| `pipelined` over `warp_tiled` | 4096 |" in _table("pipelined", target)
    asked = Target(kernel="pipelined", dtype="float32", bounds={4096: (0.5, 0.9)}, config={"stages": 4})
    assert "| `pipelined`, `stages` 4 | 4096 |" in _table("pipelined", asked)
    assert target.specs["pipelined"]["baseline"] == "warp_tiled"
