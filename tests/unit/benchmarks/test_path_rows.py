"""The record of `make bench-path`, and what a run does with its time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks.measure.path.rows import MIN_ROUNDS, WARM_UPS, Budget, Rows, by_turns, run_in_time


def test_each_row_is_there_at_once(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "record.json", {"device": "A CPU"})
    assert json.loads((tmp_path / "record.json").read_text()) == {"device": "A CPU", "rows": []}
    rows.add("stored", n=16, service=1.23456789, bare=None)
    rows.add("batch", n=64, service=2.0, count=3)
    assert json.loads((tmp_path / "record.json").read_text())["rows"] == [
        {"line": "stored", "n": 16, "service": 1.2346},
        {"line": "batch", "n": 64, "service": 2.0, "count": 3},
    ]


def test_what_there_is_no_time_for_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []
    run_in_time([lambda: done.append("first")] * 2, Budget(0.0))
    assert not done and "no time is left for 2 of 2 parts" in capsys.readouterr().out
    run_in_time([lambda: done.append("first"), lambda: done.append("second")], Budget(60.0))
    assert done == ["first", "second"] and not capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "rounds"), [(60.0, 9), (-1.0, MIN_ROUNDS)])
def test_all_take_turns_and_some_rounds_are_always_taken(seconds: float, rounds: int) -> None:
    called: list[str] = []

    def of(name: str) -> float:
        called.append(name)
        return float(len(called))

    found = by_turns({"a": lambda: of("a"), "b": lambda: of("b")}, 9, time.monotonic() + seconds)
    assert called[2 * WARM_UPS :] == ["a", "b"] * rounds
    assert found["a"] == [2 * WARM_UPS + 1 + 2 * number for number in range(rounds)]
    assert len(found["b"]) == rounds


def test_each_may_have_several_results_a_turn() -> None:
    called: list[str] = []

    def of(name: str) -> float:
        called.append(name)
        return float(len(called))

    found = by_turns({"a": lambda: of("a"), "b": lambda: of("b")}, 2, time.monotonic() + 60, in_a_row=3)
    assert called[2 * WARM_UPS :] == ["a", "a", "a", "b", "b", "b"] * 2
    assert [len(found[name]) for name in ("a", "b")] == [6, 6]
