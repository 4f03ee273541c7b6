"""What docs/reliability.md says of a record of `make machine`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from benchmarks.tables.reliability.machine import machine
from tests.machine.__main__ import covers_every_state, found
from tests.machine.played import Played

CANCELS = Counter({("queued", True): 5, ("running", True): 2, ("waits for another job", True): 1})
REFUSED = Counter({("succeeded", False): 1, ("failed", False): 1, ("cancelled", False): 1, ("queued", False): 3})
ENVIRONMENT = {"recorded_at": "2026-11-24T00:00:00+00:00", "cpu": "A CPU", "cores": 2, "python": "3.11", "versions": {}}


def test_what_was_played_is_told(tmp_path: Path) -> None:
    played = Played(
        lives=3, looks=1503, left_to_others=7, calls=Counter({("cancel", True): 8}), cancels=CANCELS + REFUSED
    )
    (tmp_path / "machine.json").write_text(json.dumps({"environment": ENVIRONMENT, "seed": 4} | found(played)))
    text = "\n".join(machine(tmp_path))
    assert "1,500 steps in 3 lives, 8 calls of each ledger, from seed 4" in text
    assert "left 7 jobs to others" in text
    assert "| queued | 5 | 3 |" in text
    assert not [*machine(tmp_path / "elsewhere")]


def test_a_run_must_have_cancelled_in_every_state() -> None:
    assert covers_every_state(Played(cancels=CANCELS + REFUSED))
    assert not covers_every_state(Played(cancels=CANCELS))
    assert not covers_every_state(Played(cancels=CANCELS + REFUSED + Counter({("succeeded", True): 1})))
    assert not covers_every_state(Played(cancels=REFUSED))
