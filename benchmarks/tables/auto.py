"""The section of docs/performance.md on `auto`: its choices for random products, compared with the best
possible ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from analysis.result_models import Results
from benchmarks.measure.auto_sample import MIN_SIZE, AutoChoice, as_served, by_tables, choices, geometric_mean
from benchmarks.recorded import files, is_results, read
from jobs.formats.elements import shape_text
from tools.markdown import table

OF_BEST, OF_LIBRARY, WORST = 0.98, 1.0, 0.9  # targets
MAX_SHOWN = 10  # of the worst choices


def auto_choices(folder: Path) -> Iterator[str]:
    """A section on the newest record in a folder. Raises pydantic.ValidationError if it is not a valid record."""
    records = [record for path in files(folder) if {"auto", "others"} <= (record := read(path)).keys()]
    if not records:  # all runs were interrupted before there was anything to compare
        return
    record = max(records, key=lambda one: one["others"]["job"]["finished_at"] or "")
    runs = {name: Results.model_validate(one) for name, one in record.items() if is_results(one)}
    auto, others = runs["auto"], runs["others"]
    found = choices(by_tables(auto), others, (auto,))
    if not found:
        return
    products = record.get("served", {}).get("records", ())
    served = choices(as_served(products, runs.values()), others, runs.values())
    yield f"## What `auto` takes, on an {auto.device['name']}"
    yield (
        f"Recorded by `make bench-auto`, ended {_when(others)}, with the tables of that time: {len(found)} random "
        f"{record['dtype']} products (seed {record['seed']}; sizes log-uniform from {record.get('least', MIN_SIZE)} to "
        f"{record['most']:,}, a third of them odd), each with every fast kernel of ours and the library. Speeds "
        "are over the library's in the same round: at its default choice on the operands as the service lays them. "
        "Zero-padded and tuned calls of the library were not part of it; where those are faster, these ratios are "
        "too good."
    )
    if served:
        probed = sum("probed here" in one["why"] for one in products)
        yield (
            f"As served: what the service took for a product of each of {len(served)} shapes. At {probed} of them a "
            "worker measured a few kernels first, since its tables did not have the shape. By tables alone: what it "
            "takes where that is switched off."
        )
        yield table(("what", "bound", "as served", "", "by tables alone", ""), _bounds(served, found)).rstrip()
    else:
        yield table(("what", "bound", "this run", ""), _bounds(found)).rstrip()
    found = served or found
    if ratios := [one.error for one in found if one.error is not None]:
        further = sum(ratio > 1 for ratio in ratios)
        yield (
            f"Float32 products made of another type's were taken for {len(ratios)} shapes; in {further} of them they "
            f"were further off than the library in the Frobenius norm, at most {max(ratios):.2f} times as far. Worst "
            "rows were not recorded; [accuracy.md](accuracy.md) has some."
        )
    taken = ", ".join(f"`{kernel}` {count}" for kernel, count in Counter(one.kernel for one in found).most_common())
    yield f"Taken: {taken}. Its worst choices:"
    yield table(("m×n×k", "taken", "over cuBLAS", "best", "over cuBLAS", "of the best"), _worst(found)).rstrip()


def _when(run: Results) -> str:
    return f"{run.job.finished_at:%Y-%m-%d %H:%M} UTC" if run.job.finished_at else "at a time that is not known"


def _bounds(*columns: tuple[AutoChoice, ...]) -> list[tuple[str, ...]]:
    figures: tuple[tuple[str, float, Callable[[tuple[AutoChoice, ...]], float]], ...] = (
        (
            "of the best kernel's speed, geometric mean",
            OF_BEST,
            lambda of: geometric_mean([choice.of_best for choice in of]),
        ),
        (
            "over the library's speed, geometric mean",
            OF_LIBRARY,
            lambda of: geometric_mean([choice.speed for choice in of]),
        ),
        ("over the library's speed, worst", WORST, lambda of: min(choice.speed for choice in of)),
    )
    rows = []
    for what, bound, figure in figures:
        values = [figure(found) for found in columns]
        verdicts = ((f"{value:.3f}", "reached" if value >= bound else "missed") for value in values)
        rows.append((what, f"≥ {bound:g}", *chain.from_iterable(verdicts)))
    return rows


def _worst(chosen: tuple[AutoChoice, ...]) -> list[tuple[str, ...]]:
    return [
        (
            shape_text(choice.shape),
            f"`{choice.kernel}`",
            f"{choice.speed:.3f}",
            f"`{choice.best_kernel}`",
            f"{choice.best_speed:.3f}",
            f"{choice.of_best:.3f}",
        )
        for choice in sorted(chosen, key=lambda choice: choice.of_best)[:MAX_SHOWN]
    ]
