"""The section of docs/performance.md on `auto` compared with the library's best: tuned, and on zero-padded sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.result_models import CaseResult, Results
from benchmarks.measure.auto_sample import Shape, as_served, by_tables, geometric_mean
from benchmarks.recorded import files, is_results, read
from kernels.catalog import BY_NAME
from kernels.model.kernel import CudaKernel, LibraryKernel
from tools.markdown import table

NOT_MUCH_LESS = 0.95
COLUMNS = ("device", "type", "shapes", "geometric mean", "worst", f"below {NOT_MUCH_LESS}", "our kernels alone")


@dataclass(frozen=True, slots=True)
class Compared:
    """Speeds at one shape over the library's best."""

    auto: float
    ours: float | None  # the fastest kernel of ours that was measured


def beside_the_best_library(folders: Iterable[Path]) -> Iterator[str]:
    """A section on the newest record of each device and element type; empty if there is none."""
    newest: dict[tuple[str, str], tuple[str, str, list[Compared]]] = {}
    for path in (path for folder in folders for path in files(folder)):
        record = read(path)
        if "others" not in record or not (compared := list(_compared(record))):
            continue
        others = record["others"]
        key, ended = (others["device"]["name"], _type(record)), others["job"]["finished_at"] or ""
        if key not in newest or ended > newest[key][0]:
            newest[key] = ended, _drawn(others, len(compared)), compared
    if not newest:
        return
    yield "## `auto` beside the library at its best"
    yield (
        "Random products, none of which the tables had when they were measured, each by what `auto` takes by its "
        "tables, by the library's default choice, and by `cublas_tuned`, which tries cublasLt's proposals on sizes as "
        "they are and zero-padded. Speeds are over the faster of both, kernel time, cold cache. A worker that was idle "
        "since the shape was first asked for has measured it, and takes the fastest. Our kernels alone: the fastest of "
        "ours that was measured, where any was. *Of* so many: the run was cut off, and has some of the shapes it drew."
    )
    yield table(COLUMNS, [_row(*key, drawn, compared) for key, (_, drawn, compared) in sorted(newest.items())]).rstrip()


def _drawn(others: Mapping[str, Any], compared: int) -> str:
    """How many shapes were compared, and of how many if the run was cut off."""
    return str(compared) if others["complete"] else f"{compared} of {len(others['spec']['shapes'])}"


def _type(record: Mapping[str, Any]) -> str:
    """The element type, and the class if it is not the type's own."""
    return f"{record['dtype']} to {record['accuracy']}" if "accuracy" in record else str(record["dtype"])


def _row(device: str, dtype: str, shapes: str, compared: list[Compared]) -> tuple[str, ...]:
    speeds = [each.auto for each in compared]
    ours = [each.ours for each in compared if each.ours is not None]
    below = sum(speed < NOT_MUCH_LESS for speed in speeds)
    mean = f"{geometric_mean(ours):.3f}" if ours else ""
    return device, dtype, shapes, f"{geometric_mean(speeds):.3f}", f"{min(speeds):.3f}", str(below), mean


def _compared(record: Mapping[str, Any]) -> Iterator[Compared]:
    """Shapes at which the tuned library was measured, and what `auto` takes there: measured among its rivals in the
    same rounds, or in a benchmark of its own."""
    runs = {name: Results.model_validate(one) for name, one in record.items() if is_results(one)}
    others = runs["others"]
    products = record.get("taken", {}).get("records", ())
    chosen = as_served(products, runs.values()) or (by_tables(runs["auto"]) if "auto" in runs else {})
    together: dict[Shape, list[CaseResult]] = {}
    for case in others.cases:
        if case.fraction_of_baseline is not None and case.status == "ok":
            together.setdefault((case.m, case.n, case.k), []).append(case)
    for shape, taken in chosen.items():
        cases = together.get(shape, [])
        tuned = [_speed(case) for case in cases if _is_tuned(case.kernel)]
        if not tuned:
            continue
        library = max(1.0, *tuned)
        ours = [_speed(case) for case in cases if isinstance(BY_NAME[case.kernel], CudaKernel)]
        yield Compared(_speed(taken) / library, max(ours) / library if ours else None)


def _is_tuned(kernel: str) -> bool:
    entry = BY_NAME[kernel]
    return isinstance(entry, LibraryKernel) and entry.is_tuned


def _speed(case: CaseResult) -> float:
    return case.fraction_of_baseline.value if case.fraction_of_baseline is not None else 1.0
