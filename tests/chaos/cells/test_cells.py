"""A small run of cells behind nginx, one of which is killed whole; and what its verdict must find.
`python -m tests.chaos.cells` does the same in bulk.
"""

from __future__ import annotations

import json
from pathlib import Path
from secrets import randbelow

import pytest

from tests.chaos.cells.faults import NGINX, Struck
from tests.chaos.cells.run import Asked, run
from tests.chaos.cells.traffic import Answer
from tests.chaos.cells.verdict import AFTER_S, by_kind, defects
from tests.support.nginx import needs_nginx

OWN, OTHER = "0c0", "0c1"
DOWN = "cell_unavailable"


@pytest.mark.chaos
def test_a_cell_that_is_killed_leaves_the_others_untouched(tmp_path: Path) -> None:
    needs_nginx()
    only = ("cell killed",)
    asked = Asked(seed=randbelow(2**31), cells=2, jobs=20, faults=1, only=only, for_s=300.0, pause_s=0.4)
    record = run(asked, tmp_path).as_record()
    said = json.dumps(record, indent=1)  # a text, which pytest does not cut short
    assert record["passed"], said
    assert record["by_kind"]["cell killed"]["own"][DOWN], said
    assert record["by_kind"]["cell killed"]["down"]["answers"], said


def struck(kind: str, at: str) -> Struck:
    """In force from second 10 to 20; the cell is ready at 25."""
    return Struck(kind, at, began_at=9.0, struck_at=10.0, mended_at=20.0, ended_at=25.0)


def answer(status: int, said: str = "", *, at: float = 15.0, told: str = OWN, retry_after: str = "2") -> Answer:
    """To a caller of the cell OWN, a moment after that second."""
    return Answer(OWN, at, at + 0.1, status, said, told, retry_after)


DEATH, STOP = struck("cell killed", OWN), struck("cell stopped", OWN)
BESIDE, NO_VALKEY = struck("cell killed", OTHER), struck("Valkey killed", OWN)
NO_NGINX = struck("nginx killed", NGINX)


@pytest.mark.parametrize(
    ("fault", "given"),
    [
        (DEATH, answer(503, DOWN)),
        (DEATH, answer(0, "cut short", at=9.95)),
        (DEATH, answer(503, "redis_unavailable", at=24.0)),
        (DEATH, answer(503, "redis_unavailable", at=25.0 + AFTER_S / 2)),
        (DEATH, answer(200, at=24.0)),
        (STOP, answer(0, "timed out")),
        (NO_VALKEY, answer(503, "redis_unavailable")),
        (NO_NGINX, answer(0, "closed")),
        (BESIDE, answer(200)),
        (BESIDE, answer(409, "no_worker_for_kernel")),
    ],
)
def test_what_a_fault_of_the_own_cell_excuses(fault: Struck, given: Answer) -> None:
    assert list(defects([given], [fault])) == []


@pytest.mark.parametrize(
    ("fault", "given", "what"),
    [
        (BESIDE, answer(503, DOWN), "503"),
        (BESIDE, answer(503, "redis_unavailable"), "503"),
        (BESIDE, answer(429, "queue_full"), "429"),
        (BESIDE, answer(0, "timed out"), "timed out"),
        (BESIDE, answer(0, "closed"), "closed"),
        (BESIDE, answer(200, told=OTHER), f"of cell {OTHER}"),
        (DEATH, answer(503, DOWN, told=""), "unknown"),
        (DEATH, answer(503, DOWN, retry_after=""), "503"),
        (DEATH, answer(502), "502"),
        (DEATH, answer(504), "504"),
        (DEATH, answer(0, "closed"), "closed"),
        (DEATH, answer(0, "timed out"), "timed out"),
        (DEATH, answer(200), "of a dead cell"),
        (DEATH, answer(503, DOWN, at=26.0), "503"),
        (DEATH, answer(503, "redis_unavailable", at=26.0 + AFTER_S), "503"),
        (NO_VALKEY, answer(503, DOWN), "503"),
        (STOP, answer(0, "closed"), "closed"),
        (NO_NGINX, answer(503, DOWN), "503"),
    ],
)
def test_what_no_fault_excuses(fault: Struck, given: Answer, what: str) -> None:
    (line,) = defects([given], [fault])
    assert what in line and OWN in line


def test_figures_are_of_the_struck_cell_and_of_the_others_apart() -> None:
    others = [
        Answer(OTHER, at, at + seconds, 200, told=OTHER) for at, seconds in ((12.0, 0.1), (14.0, 0.3), (22.0, 0.2))
    ]
    calm = [Answer(cell, 1.0, 1.5, 200, told=cell) for cell in (OWN, OTHER)]
    found = by_kind([answer(503, DOWN), answer(200, at=21.0), *others, *calm], [DEATH])
    death = found["cell killed"]
    assert death["own"] == {DOWN: 1, "answered": 1} and death["back_s"] == 1.1
    assert (death["down"]["answers"], death["down"]["errors"], death["down"]["max_ms"]) == (2, 0, 300.0)
    assert (death["back"]["answers"], death["back"]["max_ms"]) == (1, 200.0)
    assert (found["none"]["answers"], found["none"]["max_ms"]) == (2, 500.0)
