"""What docs/performance.md says of `auto`: its choices for random products beside the best there was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from analysis.result_models import Results
from benchmarks.auto_sample import LEAST, Choice, choices, geometric_mean
from scripts.markdown import table

OF_BEST, OF_LIBRARY, WORST = 0.98, 1.0, 0.9  # what is to be reached
SHOWN = 10  # of the worst choices


def auto_choices(path: Path) -> Iterator[str]:
    """A section. Raises pydantic.ValidationError for a file that is no such record."""
    record = json.loads(path.read_bytes())
    if not {"auto", "others"} <= record.keys():  # cut off before there was anything to hold against each other
        return
    auto, others = (Results.model_validate(record[name]) for name in ("auto", "others"))
    found = choices(auto, others)
    if not found:
        return
    yield f"## What `auto` takes, on an {auto.device['name']}"
    yield (
        f"Recorded by `make bench-auto`, ended {_when(others)}, with the tables of that time: {len(found)} random "
        f"{record['dtype']} products (seed {record['seed']}; sizes log-uniform from {LEAST} to {record['most']:,}, a "
        "third of them odd), each with every fast kernel of ours and the library. Speeds are over the library's in the "
        "same round."
    )
    yield table(("what", "bound", "this run", ""), _bounds(found)).rstrip()
    if ratios := [one.error for one in found if one.error is not None]:
        further = sum(ratio > 1 for ratio in ratios)
        yield (
            f"Float32 products made of another type's were taken for {len(ratios)} shapes; in {further} of them they "
            f"were further off than the library, at most {max(ratios):.2f} times as far."
        )
    taken = ", ".join(f"`{kernel}` {count}" for kernel, count in Counter(one.kernel for one in found).most_common())
    yield f"Taken: {taken}. Its worst choices:"
    yield table(("m×n×k", "taken", "over cuBLAS", "best", "over cuBLAS", "of the best"), _worst(found)).rstrip()


def _when(run: Results) -> str:
    return f"{run.job.finished_at:%Y-%m-%d %H:%M} UTC" if run.job.finished_at else "at a time that is not known"


def _bounds(found: tuple[Choice, ...]) -> list[tuple[str, ...]]:
    figures = (
        ("of the best kernel's speed, geometric mean", OF_BEST, geometric_mean([one.of_best for one in found])),
        ("over the library's speed, geometric mean", OF_LIBRARY, geometric_mean([one.speed for one in found])),
        ("over the library's speed, worst", WORST, min(one.speed for one in found)),
    )
    return [
        (what, f"≥ {bound:g}", f"{value:.3f}", "reached" if value >= bound else "missed")
        for what, bound, value in figures
    ]


def _worst(found: tuple[Choice, ...]) -> list[tuple[str, ...]]:
    return [
        (
            "×".join(map(str, one.shape)),
            f"`{one.kernel}`",
            f"{one.speed:.3f}",
            f"`{one.best_kernel}`",
            f"{one.best_speed:.3f}",
            f"{one.of_best:.3f}",
        )
        for one in sorted(found, key=lambda one: one.of_best)[:SHOWN]
    ]
