"""What docs/reliability.md says of a record of `make machine`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tables.reliability.machine import machine
from tests.machine.__main__ import covers_every_state, found, main
from tests.machine.played import Played
from tests.support.runs import RunsRecord

CANCELS = Counter({("queued", True): 5, ("running", True): 2, ("waits for another job", True): 1})
REFUSED = Counter({("succeeded", False): 1, ("failed", False): 1, ("cancelled", False): 1, ("queued", False): 3})
ORIGIN = {"commit": "0123456789ab", "cpu": "A CPU", "cores": 2, "python": "3.11", "versions": {}}


def run(cancels: Counter[tuple[str, bool]]) -> dict[str, Any]:
    return found(Played(cancels=cancels))


def test_the_table_describes_the_runs(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "machine.json")
    for seed in (4, 5):
        played = Played(lives=3, looks=1503, left_to_others=7, calls=Counter({("cancel", True): 8}), cancels=CANCELS)
        record.add({"seed": seed, **ORIGIN, **found(played)})
    text = "\n".join(machine(tmp_path))
    assert "A CPU, 2 cores, Python 3.11, at 0123456789ab. 3,000 steps in 6 lives, 16 calls of each ledger" in text
    assert "seeds 4 to 5" in text and "left 14 jobs to others" in text
    assert "| queued | 10 | 0 |" in text
    assert not [*machine(tmp_path / "elsewhere")]


def test_runs_must_have_cancelled_in_every_state() -> None:
    assert covers_every_state([run(CANCELS + REFUSED)])
    assert covers_every_state([run(CANCELS), run(REFUSED)])
    assert not covers_every_state([run(CANCELS)])
    assert not covers_every_state([run(CANCELS + REFUSED + Counter({("succeeded", True): 1}))])
    assert not covers_every_state([run(REFUSED)])


def test_a_run_goes_on_from_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many steps as are lacking, from the seed after the last."""
    seeds: list[int | None] = []

    def play(_: object, *, lives: int, seed: int) -> Played:
        seeds.append(seed)
        return Played(lives=lives, looks=lives + 1000, cancels=CANCELS + REFUSED)

    monkeypatch.setattr("tests.machine.__main__.play", play)
    out = str(tmp_path / "machine.json")
    assert main(["--steps", "2000", "--seed", "7", "--out", out]) == 0
    assert main(["--steps", "3000", "--out", out]) == 0
    assert main(["--steps", "3000", "--out", out]) == 0
    assert seeds == [7, 8, 9]
