"""The record of a run, rewritten with each row, so that an interrupted run leaves what it measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.recorded import compact, write_rows

DIGITS = 5
WARM_UPS, MIN_ROUNDS = 2, 3


class Rows:
    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self._path, self._about = path, about
        self._rows: list[dict[str, Any]] = []
        write_rows(path, about, self._rows)

    def add(self, line: str, **fields: Any) -> None:
        """Adds one line of the record; unmeasured values are left out."""
        self._rows.append(
            {"line": line} | {name: rounded(value) for name, value in fields.items() if value is not None}
        )
        print(compact(self._rows[-1]), flush=True)
        write_rows(self._path, self._about, self._rows)


def rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


class Budget:
    """The remaining seconds of a run."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._ends_at = seconds, time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return self._ends_at - time.monotonic()

    def ends_at(self, share: float) -> float:
        """The time at which something that has this share of the whole must end."""
        return min(time.monotonic() + share * self._seconds, self._ends_at)


def run_in_time(parts: Sequence[Callable[[], None]], budget: Budget) -> None:
    """Runs the parts one after another, and begins none after time has run out."""
    for number, part in enumerate(parts):
        if budget.left_s <= 0:
            print(f"no time is left for {len(parts) - number} of {len(parts)} parts", flush=True)
            return
        part()


def by_turns(
    actions: Mapping[str, Callable[[], float]], rounds: int, ends_at: float, *, in_a_row: int = 1
) -> dict[str, list[float]]:
    """The results of each action. They take turns of `in_a_row` results, in so many rounds, or in as many as there is
    time for, but at least MIN_ROUNDS."""
    for action in list(actions.values()) * WARM_UPS:
        action()
    samples: dict[str, list[float]] = {name: [] for name in actions}
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.monotonic() > ends_at:
            break
        for name, action in actions.items():
            samples[name].extend(action() for _ in range(in_a_row))
    return samples


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in samples.items()}
