"""A page that has kernels of several cards of one model, or a run that was cut off, says so."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.result_models import Ratio, Results
from benchmarks.kernel_targets import Target
from benchmarks.publish import beside_cublas
from benchmarks.tables.auto_library import beside_the_best_library
from benchmarks.tables.targets import kernel_targets
from jobs.benchmarks.spec import DataSpec
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")
TARGETS = [Target(kernel=name, dtype="float32", bounds={4096: None}) for name in ("pipelined", "warp_tiled")]

PADDED, EVEN = DataSpec(layout="padded"), Ratio(value=1.0, lo=1.0, hi=1.0)
SHAPES = {"shapes": [{"m": n, "n": n, "k": n} for n in (4096, 4097, 4098)]}


def on_card(uuid: str) -> Results:
    return LARGE.model_copy(update={"device": LARGE.device | {"uuid": uuid}})


def test_several_cards_are_told_and_a_single_one_is_not() -> None:
    one, other = on_card("GPU-1"), on_card("GPU-2")
    assert "took part" not in "".join(kernel_targets({"pipelined": one, "warp_tiled": one}, TARGETS))
    told = "".join(kernel_targets({"pipelined": one, "warp_tiled": other}, TARGETS))
    assert "2 cards of that model took part" in told


def test_results_that_are_merged_from_runs_on_several_cards_say_so() -> None:
    def merged(*runs: Results) -> Results:
        padded = [run.model_copy(update={"spec": run.spec.model_copy(update={"data": PADDED})}) for run in runs]
        return beside_cublas({str(number): run.model_dump(mode="json") for number, run in enumerate(padded)})

    assert "cards of this model" not in " ".join(merged(on_card("GPU-1"), on_card("GPU-1")).warnings)
    assert "2 cards of this model took part" in " ".join(merged(on_card("GPU-1"), on_card("GPU-2")).warnings)


def test_a_comparison_with_the_best_library_that_was_cut_off_says_of_how_many_shapes(tmp_path: Path) -> None:
    """Each in a folder of its own device."""
    library = next(case for case in LARGE.cases if case.kernel == "cublas" and case.n == 4096)
    tuned = library.model_copy(update={"kernel": "cublas_tuned", "case": "tuned", "fraction_of_baseline": EVEN})
    run = LARGE.model_copy(update={"records": (library.model_copy(update={"fraction_of_baseline": EVEN}), tuned)})
    for name, complete in (("whole", True), ("cut off", False)):
        one = run.model_copy(update={"complete": complete, "device": run.device | {"name": name}})
        part = one.model_dump(mode="json")
        document = {"seed": 1, "dtype": "float32", "auto": part, "others": part | {"spec": part["spec"] | SHAPES}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    *_, told = beside_the_best_library([tmp_path])
    assert "| whole | float32 | 1 | 1.000 |" in told and "| cut off | float32 | 1 of 3 | 1.000 |" in told
