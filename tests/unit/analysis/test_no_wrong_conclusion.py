"""No conclusion rests on a measurement that was disturbed: recorded results with a disturbance planted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from analysis.comparison.compare import Run, compare, run_of
from analysis.comparison.history import MIN_RUNS, history
from analysis.condition import Condition
from analysis.configs import best_configs
from analysis.curves import beside_disturbed, curves, speed_ups
from analysis.dips import features
from analysis.explain import explain, why
from analysis.measurement import Device
from analysis.plots.beside import beside
from analysis.plots.by_name import draw_of
from analysis.plots.description import Chart
from analysis.plots.lines import GFLOPS, by_size
from analysis.plots.winners import winners
from analysis.report import causes, method, tables
from analysis.report.conclusion import conclusion
from analysis.report.document import Items, Table, Text
from analysis.report.options import ReportOptions
from analysis.report.render import markdown_report
from analysis.report.speeds import speeds
from analysis.report.subject import Pair, of_publication, of_results
from analysis.report.summary import best_at_each_size, sentences
from analysis.result_models import CaseResult, Results
from analysis.results import measurements
from analysis.roofline import Roofs, bound, measured_roofs, units_of
from benchmarks.recorded import read
from jobs.benchmarks.presets import PRESETS
from kernels.published import PUBLISHED
from service.benchmarks.body import read_benchmark
from tests.support.recorded import RESULTS, h200, labelled, made, timed

CONTENDED = Condition("contended", "Another process used the device while it was measured.")
DISTURBANCES: Mapping[str, dict[str, Any]] = {
    "contended": {"contended": True},
    "throttled": {"throttled": True},
    "not converged": {"stop_reason": "timeout", "ci95_lo_us": None, "ci95_hi_us": None},
}


@cache
def grade() -> Results:
    return Results.model_validate(read(RESULTS / "h200" / "grade.jsonl.gz"))


def slowed(case: CaseResult, factor: float, **planted: Any) -> CaseResult:
    """The case as if measured `times` slower, with the planted differences."""
    assert case.kernel_ms and case.gflops and case.time_us
    times = case.time_us.model_copy(update={name: value * factor for name, value in case.time_us.model_dump().items()})
    rounds = tuple(one.model_copy(update={"kernel_ms": (one.kernel_ms or 0) * factor}) for one in case.rounds)
    update = {"kernel_ms": case.kernel_ms * factor, "gflops": case.gflops / factor, "time_us": times, "rounds": rounds}
    return case.model_copy(update=update | planted)


def planted(kernel: str, n: int, factor: float = 3.0, **fields: Any) -> Results:
    """The recorded run with one case disturbed."""
    records = [
        slowed(case, factor, **fields) if (case.kernel, case.n) == (kernel, n) else case for case in grade().records
    ]
    return grade().model_copy(update={"records": tuple(records)})


def text_of(blocks: Any) -> str:
    return "\n".join(
        "\n".join(block.texts) if isinstance(block, Items) else block.text
        for block in blocks
        if isinstance(block, Items | Text)
    )


def pairs(results: Results) -> list[Pair]:
    return list(zip(results.records, measurements(results), strict=True))


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_disturbed_case_is_not_comparable_and_the_cause_comes_first(kind: str) -> None:
    disturbed = planted("pipelined", 1024, **DISTURBANCES[kind])
    for before, after, run in ((disturbed, grade(), "Before"), (grade(), disturbed, "After")):
        found = compare(run_of(before), run_of(after))
        (case,) = (one for one in found.cases if one.verdict == "not comparable")
        assert (case.before.label, case.before.n) == ("pipelined", 1024) and case.why.startswith(f"{run}: ")
        assert found.counts["faster"] == found.counts["slower"] == 0


def test_the_same_difference_undisturbed_is_a_verdict() -> None:
    assert compare(run_of(planted("pipelined", 1024)), run_of(grade())).counts["faster"] == 1


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_disturbed_dip_is_explained_by_the_disturbance_first(kind: str) -> None:
    results = planted("pipelined", 1024, **DISTURBANCES[kind])
    own = [each for each in measurements(results) if each.label == "pipelined"]
    (dip,) = (feature for curve in curves(own) for feature in features(curve) if feature.point.n == 1024)
    assert dip.kind == "dip" and explain(dip)[0].factor == "disturbance"
    assert why(dip).startswith(f"1024 is {kind}: ")
    assert f"1024 is {kind}" in text_of(causes.dips(pairs(results)))


def test_no_neighbour_is_held_against_a_disturbed_point() -> None:
    fast = [made(n, gflops=100.0) for n in (256, 512, 2048)]
    disturbed = replace(made(1024, gflops=30.0), condition=CONTENDED)
    (curve,) = curves([*fast, disturbed])
    assert [(feature.kind, feature.point.n) for feature in features(curve)] == [("dip", 1024)]
    (alone,) = curves([disturbed])
    assert features(alone) == ()


def test_a_history_marks_no_disturbed_run_and_holds_none_against_one() -> None:
    def runs(*milliseconds: tuple[float, bool]) -> list[Run]:
        clean = made(1024, kernel_ms=1.0, gflops=100.0)
        return [
            Run(
                name=str(place),
                measurements=[replace(clean, kernel_ms=ms, condition=clean.condition if ok else CONTENDED)],
            )
            for place, (ms, ok) in enumerate(milliseconds)
        ]

    steady = [(1.0 + 0.001 * place, True) for place in range(MIN_RUNS)]
    marks = [point.mark for point in history(runs(*steady, (3.0, False), (3.0, True)), made(1024))]
    assert marks[-2:] == [None, "regression"]
    *_, last = history(runs(*steady[:-1], (3.0, False), (3.0, True)), made(1024))
    assert (last.mark, last.compared_with) == (None, MIN_RUNS - 1)


def test_causes_are_ranked_by_the_share_that_they_can_account_for() -> None:
    curve = labelled(h200(), "pipelined")
    (dip,) = (feature for feature in features(curve) if feature.point.n == 4097)
    shares = [one.share for one in explain(dip)]
    assert shares == sorted(shares, key=lambda share: -1.0 if share is None else share, reverse=True)
    assert explain(dip)[0].factor == "waves" and "That alone can account for" in why(dip)


def test_a_thousandth_of_padding_does_not_explain_a_seventh() -> None:
    (dip,) = (feature for feature in features(labelled(h200(), "pipelined")) if feature.point.n == 2047)
    assert why(dip).startswith("Nothing found that is large enough: partial tiles can account for")


def test_a_dip_says_both_its_near_end_and_its_median() -> None:
    points = [made(n, gflops=100.0) for n in (256, 512, 2048)]
    median_ms = made(1024).problem.flops / 28e6
    noisy = timed(median_ms * 28 / 51, median_ms, median_ms * 1.1)
    (curve,) = curves([*points, noisy])
    (dip,) = features(curve)
    assert causes.off(dip) == "at least 49 % slower (median 72 %)"


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_headline_skips_disturbed_cases_and_names_the_library(kind: str) -> None:
    clean = tables.headline(pairs(grade()))
    assert clean is not None and "the hand-written kernels" in clean and "libraries beside them: cublas" in clean
    winner = max(
        (case for case in grade().records if case.gflops and not case.kernel.startswith("cublas")),
        key=lambda case: case.gflops or 0,
    )
    without = tables.headline(pairs(planted(winner.kernel, winner.n, 0.5, **DISTURBANCES[kind])))
    assert without is not None and f"{winner.kernel} at {winner.n} " not in without


def test_a_library_of_another_accuracy_is_no_rival() -> None:
    ladder = Results.model_validate(read(RESULTS / "h200" / "ladder.jsonl.gz"))
    told = tables.headline(pairs(ladder)) or ""
    assert "cublas at 8192" in told and "cublas_bf16" not in told


def test_a_disturbed_config_is_best_only_where_there_is_no_other() -> None:
    slow, fast = (made(1024, config={"tile": tile}, gflops=gflops) for tile, gflops in ((16, 50.0), (32, 90.0)))
    disturbed = replace(fast, condition=CONTENDED)
    (best,) = best_configs([slow, disturbed])
    assert best.measurement.config == {"tile": 16} and best.ratio is None and "Not comparable" in best.reasons[0]
    (curve,) = curves([slow, disturbed])
    assert curve.points[0].config == {"tile": 16}


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_report_concludes_nothing_from_a_disturbed_case_and_marks_it(kind: str) -> None:
    subject = of_results(planted("pipelined", 2048, 0.5, **DISTURBANCES[kind]))  # it would win by far
    told = [*sentences(subject), text_of(conclusion(subject, ReportOptions()))]
    assert [f"1 {kind}" in one for one in told].count(True) == 1 and f"1 {kind}" in told[-2]
    assert not any("pipelined at 2048" in one or "2048 (pipelined" in one for one in told)
    (field,) = winners(subject.measurements)
    cell = field.cells[field.kernels.index("pipelined")][field.sizes.index("2048")]
    assert cell is not None and (cell.is_best, cell.is_clean, cell.words[0]) == (False, False, "(")
    best = {own.n: own.label for own, _ in beside(subject.measurements)[0].pairs}
    assert best[2048] == "warp_tiled"
    text = markdown_report(subject)
    assert text.count(" † |") == 4 and f"pipelined at 2048: {subject.disturbed[0][1].condition.sentence}" in text
    assert "†" not in markdown_report(of_results(grade()))


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_nothing_is_concluded_from_a_disturbed_baseline_and_shares_of_it_are_marked(kind: str) -> None:
    subject = of_results(planted("cublas", 2048, 5.0, **DISTURBANCES[kind]))
    held = {(own.label, own.n) for _, own in best_at_each_size(subject)}
    assert len(held) == 5 and not any(n == 2048 for _, n in held)
    told = text_of([Text(" ".join(sentences(subject))), *conclusion(subject, ReportOptions())])
    assert "of the baseline there" not in told and "pipelined at 2048 with" in told and "2048 (" not in told
    shares = next(block for block in speeds(subject.pairs) if isinstance(block, Table) and "Share" in block.caption)
    row = shares.rows[[row[0] for row in shares.rows].index("pipelined")]
    assert [cell.endswith("†") for cell in row[1:]] == [name == "2048" for name in shares.head[1:]]
    assert "or what it is compared with" in shares.note
    (field,) = winners(subject.measurements)
    assert {row[-1].words[0] for row in field.cells if row[-1]} == {"("} and {
        row[0].is_clean for row in field.cells if row[0]
    } == {True}


def test_a_speed_up_is_over_the_clean_naive_kernel_or_is_marked() -> None:
    slow, fast = (made(1024, gflops=gflops, config={"block_m": place}) for place, gflops in enumerate((50.0, 90.0)))
    tiled = made(1024, gflops=200.0, kernel="unrolled", label="unrolled")
    disturbed = replace(fast, condition=CONTENDED)
    assert speed_ups([slow, disturbed, tiled], "naive")[2] == 4.0
    assert beside_disturbed([slow, disturbed, tiled], "naive") == frozenset()
    assert id(tiled) in beside_disturbed([disturbed, tiled], "naive")
    text = markdown_report(of_results(planted("naive", 2048, **DISTURBANCES["contended"])))
    row = next(line for line in text.split("Speed-up over naive")[1].splitlines() if line.startswith("| pipelined"))
    assert row.count("†") == 1


def test_where_all_are_disturbed_none_wins() -> None:
    library = made(1024, gflops=100.0, kernel="cublas", label="cublas")
    (field,) = winners([library, replace(made(1024, gflops=90.0), condition=CONTENDED)])
    assert [cell and (cell.is_best, cell.words) for (cell,) in field.cells] == [(False, "(90)")]


@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_disturbed_point_is_drawn_as_such(kind: str) -> None:
    disturbed = measurements(planted("pipelined", 1024, **DISTURBANCES[kind]))
    panels = by_size(disturbed, GFLOPS)
    (panel,) = panels
    assert isinstance(panel, Chart)
    assert {line.name: [x for x, _ in line.disturbed] for line in panel.series if line.disturbed} == {
        "pipelined": [1024.0]
    }
    assert b"disturbed: no conclusion" in draw_of(disturbed, "gflops")
    assert b"disturbed" not in draw_of(measurements(grade()), "gflops")


def test_kernels_of_others_are_not_called_ours() -> None:
    foreign = of_publication(next(one for one in PUBLISHED.values() if one.report == "000"))
    assert "this project" not in markdown_report(foreign).split("## How to reproduce it")[0]


def test_the_naive_kernel_is_not_bound_by_compute() -> None:
    found = {each.label: each for each in measurements(grade()) if each.n == 2048 and each.gflops}
    limits = {label: bound(each, measured_roofs(each.device, units_of(each))) for label, each in found.items()}
    assert limits["naive_uncoalesced"] == limits["naive"] == "neither roof"
    assert limits["pipelined"] == "compute"


def test_compute_is_the_limit_only_where_tile_traffic_says_so_too() -> None:
    roofs = Roofs("measured", 1000.0, 100.0)  # its ridge: 10 operations a byte
    naive = made(2048, kernel="naive", gflops=600.0, config={"block_m": 8, "block_n": 32}, device=Device())
    assert bound(naive, roofs) == "tile traffic"
    assert bound(replace(naive, gflops=400.0), roofs) == "neither roof"
    assert bound(replace(naive, kernel="cublas", config={}), roofs) == "compute"


def on_cpu(results: Results) -> Results:
    return results.model_copy(update={"device": {"name": "A CPU", "device_class": "cpu"}})


def test_the_method_of_a_cpu_run_speaks_of_no_gpu() -> None:
    on_gpu, of_cpu = (text_of(method.method(of_results(results))) for results in (grade(), on_cpu(grade())))
    for words in ("L2 cache", "SM clock", "on the device", "queued"):
        assert words in on_gpu and words not in of_cpu
    assert "last-level cache" in of_cpu and "page-locked" not in of_cpu


def test_the_method_says_how_many_cases_did_not_become_precise() -> None:
    ended = method.method(of_results(planted("naive", 256, 1.0, stop_reason="max_samples")))
    assert "Of 84 cases 83 became that precise; 1 ended at the largest number of samples." in text_of(ended)
    assert "became that precise" not in text_of(method.method(of_results(grade())))


@pytest.mark.parametrize("name", PRESETS)
def test_the_title_of_a_preset_is_true_of_a_cpu(name: str) -> None:
    forms = read_benchmark(b'{"preset": "%s"}' % name.encode()).forms
    title = forms["cpu"].title or ""
    assert "CPU" in title and title != forms["gpu"].title
    sizes = {size for size in forms["cpu"].shapes if isinstance(size, int)}
    named = {int(size) for size in re.findall(r"(?:at|,|and) (\d+)(?![\d ]* sizes)", title)}
    assert named <= sizes


def test_a_changed_preset_does_not_bear_its_summary() -> None:
    forms = read_benchmark(b'{"preset": "levels", "shapes": [64], "timing": {"rounds": 1}}').forms
    assert {form.title for form in forms.values()} == {"Preset levels with other shapes"}
    named = read_benchmark(b'{"preset": "levels", "shapes": [64], "title": "Mine"}').forms
    assert named["cpu"].title == "Mine"
