"""Recorded benchmarks as rows: what is written is what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.result_models import Results
from benchmarks.recorded import files, find, name_of, packed, read, record_rows, unpacked, write
from benchmarks.tuned_table import timed
from tests.support.recorded import RESULTS, recorded_results

FIGURES = st.none() | st.floats(1e-9, 1e9) | st.integers(-5, 5)


def document(name: str = "large") -> dict[str, Any]:
    return recorded_results(name).model_dump(mode="json")


def again(found: dict[str, Any], *, brief: bool = False) -> Any:
    return unpacked(list(packed(found, brief=brief)))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("h?00/*.jsonl*")), ids=name_of)
def test_every_record_is_results_and_comes_out_as_it_went_in(path: Path) -> None:
    found = Results.model_validate(read(path))
    if found.records:
        assert Results.model_validate(again(found.model_dump(mode="json"))) == found


def test_several_benchmarks_in_a_file(tmp_path: Path) -> None:
    several = {"seed": 7, "served": {"records": [1, None]}, "one": document("large"), "other": document("quick")}
    for name in ("some.jsonl", "some.jsonl.gz", "some.json"):
        write(tmp_path / name, several)
        found = read(tmp_path / name)
        assert {key: found[key] for key in ("seed", "served")} == {"seed": 7, "served": {"records": [1, None]}}
        assert [Results.model_validate(found[key]) for key in ("one", "other")] == [
            recorded_results("large"),
            recorded_results("quick"),
        ]
    assert not list(tmp_path.glob("*.partial"))


def test_a_brief_record_says_the_same_of_speed_and_error() -> None:
    """To six digits."""
    whole, brief = document(), again(document(), brief=True)
    for one, other in zip(timed(brief), timed(whole), strict=True):
        assert (one.kernel, one.problem) == (other.kernel, other.problem)
        assert one.round_ms == pytest.approx(other.round_ms, rel=1e-5)
        assert one.error_of_baseline == pytest.approx(other.error_of_baseline, abs=2e-4)
    for record, of_whole in zip(brief["records"], whole["records"], strict=True):
        ratios = [each.get("fraction_of_baseline") or {} for each in (record, of_whole)]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-5)
    assert len(json.dumps(list(packed(whole, brief=True)))) < len(json.dumps(list(packed(whole)))) / 2


@given(st.lists(st.tuples(FIGURES, st.none() | st.floats(1e-6, 1e6), st.integers(0, 3)), min_size=1, max_size=5))
def test_rows_of_any_figures(figures: list[tuple[float | None, float | None, int]]) -> None:
    shape = {"m": 2, "n": 3, "k": 4, "batch": 1, "dtype": "float32"}
    records: list[dict[str, Any]] = [
        shape
        | {"launch": {"waves": first, "grid": None if rounds == 3 else [1, 2]}}
        | {"rounds": [{"round": number, "kernel_ms": ms, "status": "ok"} for number in range(rounds)]}
        for first, ms, rounds in figures
    ]
    found = again({"spec": {}, "device": {}, "records": records})
    for (first, ms, rounds), record in zip(figures, found["records"], strict=True):
        assert record["flops"] == 48 and [one["round"] for one in record["rounds"]] == list(range(rounds))
        assert is_near(record.get("launch", {}).get("waves"), first, 1e-8)
        assert all(is_near(one.get("kernel_ms"), ms, 1e-11) for one in record["rounds"])


def is_near(found: float | None, given: float | None, relative: float) -> bool:
    return found is given if found is None or given is None else abs(found - given) <= relative * abs(given)


@pytest.mark.parametrize("name", ["record.json", "record.json.gz"])
def test_a_run_that_is_cut_off_leaves_the_rows_that_it_has(name: str, tmp_path: Path) -> None:
    def measured() -> Iterator[dict[str, int]]:
        yield {"n": 1}
        yield {"n": 2}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_rows(tmp_path / name, {"device": "a GPU"}, measured())
    assert read(tmp_path / name) == {"device": "a GPU", "rows": [{"n": 1}, {"n": 2}]}
    assert files(tmp_path) == [find(tmp_path, "record")] == [tmp_path / name]
    assert find(tmp_path, "other") is None and name_of(tmp_path / name) == "record"
