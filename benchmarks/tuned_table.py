"""Writes kernels/tuned/, the tables that `auto` reads, from recorded results, so that no figure in them is typed.

    python -m benchmarks.tuned_table [--check] [RESULTS…]

RESULTS are documents of GET /v1/benchmarks/{id}/results; by default all of them in `benchmarks/results/`. Cases
measured with a warm L2, while other processes ran, or on a throttled device are left out, and so is a shape at which
the library has only such cases. If several documents measured a kernel at a shape, its best result counts. For a config
that makes its products from another type's, only the newest result counts, since it may have become more or less exact.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kernel_targets import PADDED
from benchmarks.recorded import compact, files, is_results, read
from jobs.benchmarks.cases import LIBRARY_OF_ACCURACY
from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceClass
from kernels.model.numerics import DTYPE_NAMES, AccuracyName, DTypeName, Problem, gflops
from kernels.selection.fallbacks import fallback_of
from kernels.selection.ranking import compared, error_ratio
from kernels.selection.tuned import DIRECTORY, SUFFIX, Entry, Source, Trial, TunedTable, file_name
from kernels.text_files import has_text, write_text

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Timed:
    """A case that was measured completely."""

    kernel: str
    config: Mapping[str, int]
    problem: Problem
    round_ms: Mapping[int, float]  # kernel time by round
    error_of_baseline: float | None  # its error over the baseline's in the same run

    @property
    def accuracy(self) -> AccuracyName:
        return BY_NAME[self.kernel].accuracy[self.problem.dtype]


def documents(paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results by file, or by file and name if the file holds several; other recorded runs are skipped. So are
    benchmarks of a library on padded operands, because they contain no rivals."""
    for path in sorted(paths):
        document = read(path)
        name = (path.relative_to(RESULTS) if path.is_relative_to(RESULTS) else Path(path.name)).as_posix()
        if is_results(document):
            yield name, document
        elif isinstance(document, dict):
            parts = ((part, one) for part, one in document.items() if is_results(one))
            yield from ((f"{name}: {part}", one) for part, one in parts if not part.endswith(PADDED))


def timed(document: Mapping[str, Any]) -> Iterator[Timed]:
    """The cases of a document that count. Zeros draw less power than other data, so they run faster than real products
    do; and operands of products are never dense on a GPU."""
    data = document["spec"]["data"]
    if data["distribution"] == "zeros" or data.get("layout") == "dense":
        return
    rounds = document["spec"]["timing"]["rounds"]
    errors = {record.get("case"): record.get("error_vs_float64") for record in document["records"]}
    for record in document["records"]:
        clean = record["cache"] == "cold" and not (record["contended"] or record["throttled"])
        if clean and record["status"] == "ok" and record["kernel"] in BY_NAME:
            problem = Problem(record["m"], record["n"], record["k"], record["dtype"], record["batch"])
            # Later rounds belong to a tuner's successive halving: a few samples each, of many configs.
            taken = [(one["round"], one["kernel_ms"]) for one in record["rounds"]]
            if round_ms := {number: ms for number, ms in taken if number < rounds and ms}:
                over = error_ratio(record.get("error_vs_float64"), errors.get(record.get("baseline")))
                yield Timed(record["kernel"], record["config"], problem, round_ms, over)


def library_for(dtype: DTypeName, accuracy: AccuracyName, device_class: DeviceClass) -> str | None:
    """The baseline of a class; None if the library does not multiply that type."""
    reduced = LIBRARY_OF_ACCURACY.get(accuracy) if dtype == "float32" else None
    name = "cpu_blas" if device_class == "cpu" else reduced or "cublas"
    return name if BY_NAME[name].accuracy.get(dtype) == accuracy else None


def entries(cases: Iterable[Timed], device_class: DeviceClass) -> Iterator[Entry]:
    """One entry for each shape, element type and class, from one document."""
    alike: dict[tuple[Problem, AccuracyName], list[Timed]] = defaultdict(list)
    for case in cases:
        alike[case.problem, case.accuracy].append(case)
    for (problem, accuracy), together in alike.items():
        library = library_for(problem.dtype, accuracy, device_class)
        baseline = next((case for case in together if case.kernel == library), None)
        yield Entry(
            dtype=problem.dtype,
            accuracy=accuracy,
            m=problem.m,
            n=problem.n,
            k=problem.k,
            batch=problem.batch,
            baseline=baseline.kernel if baseline else None,
            **compared(_trial(case, baseline) for case in together),
        )


def _trial(case: Timed, baseline: Timed | None) -> Trial:
    """Medians over the rounds; the ratio is of times in the same round."""
    paired = baseline.round_ms if baseline else {}
    ratios = [paired[number] / ms for number, ms in case.round_ms.items() if number in paired]
    return Trial(
        kernel=case.kernel,
        config=dict(case.config),
        gflops=round(gflops(case.problem, median(case.round_ms.values())) or 0.0, 1),
        fraction_of_baseline=round(median(ratios), 4) if ratios else None,
        error_of_baseline=case.error_of_baseline,
    )


def merged(found: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries of several documents, the oldest first, sorted by shape."""
    by_key: dict[tuple[Any, ...], Entry] = {}
    for entry in found:
        key = (DTYPE_NAMES.index(entry.dtype), entry.accuracy, entry.problem.flops, *entry.shape)
        if (other := by_key.get(key)) is not None:
            rows = compared((*other.ranking, *other.trials, *entry.ranking, *entry.trials))
            entry = replace(entry, baseline=other.baseline or entry.baseline, **rows)
        by_key[key] = entry
    return tuple(by_key[key] for key in sorted(by_key) if by_key[key].ranking)


def tables(found: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[TunedTable]:
    """A table for each device model."""
    by_device: dict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for name, document in found:
        by_device[document["device"]["name"]].append((name, document))
    for device, together in by_device.items():
        about = together[-1][1]["device"]
        capability = about["compute_capability"]
        yield TunedTable(
            device=device,
            device_class=about["device_class"],
            compute_capability=tuple(capability) if capability else None,
            multiprocessors=about["multiprocessors"],
            sources=tuple(source(name, document) for name, document in together),
            entries=with_choice(
                with_library(
                    merged(
                        entry
                        for _, document in sorted(together, key=lambda one: datetime.fromisoformat(_date(one[1])))
                        for entry in entries(timed(document), about["device_class"])
                    ),
                    about["device_class"],
                )
            ),
        )


def with_library(found: Iterable[Entry], device_class: DeviceClass) -> tuple[Entry, ...]:
    """Without shapes at which the library supports the type, but has no valid measurement."""
    return tuple(one for one in found if one.baseline or library_for(one.dtype, one.accuracy, device_class) is None)


def with_choice(found: Iterable[Entry]) -> tuple[Entry, ...]:
    """Without shapes at which only the library and a kernel that may fall back were measured, and that kernel is not
    worth it: such an entry would always choose the library, while nearby shapes know more rivals."""
    return tuple(one for one in found if not _leaves_no_choice(one))


def _leaves_no_choice(entry: Entry) -> bool:
    fallbacks = {row.kernel: fallback_of(BY_NAME[row.kernel]) for row in entry.ranking}
    if any(fallback is None and name != entry.baseline for name, fallback in fallbacks.items()):
        return False
    library = max((row.gflops for row in entry.ranking if row.kernel == entry.baseline), default=0.0)
    rows = ((row.gflops, fallbacks[row.kernel]) for row in entry.ranking)
    is_worth_it = any(fallback and gflops >= fallback.worth(entry.problem) * library for gflops, fallback in rows)
    return len(fallbacks) > 1 and not is_worth_it


def source(name: str, document: Mapping[str, Any]) -> Source:
    return Source(file=name, date=_date(document), versions=document["device"]["versions"])


def _date(document: Mapping[str, Any]) -> str:
    date: str = document["job"]["finished_at"] or document["job"]["created_at"]
    return date


def text(table: TunedTable) -> str:
    """One row per line. Each config is written once, and rows refer to it by number."""
    given = asdict(table)
    configs: dict[str, int] = {}
    parts = [_entry(entry, configs) for entry in given.pop("entries")]
    given["configs"] = [json.loads(config) for config in configs]
    return json.dumps(given)[:-1] + ', "entries": [\n' + ",\n".join(parts) + "\n]}\n"


def _entry(entry: dict[str, Any], configs: dict[str, int]) -> str:
    lists = {name: [_row(row, configs) for row in entry.pop(name)] for name in ("ranking", "trials")}
    written = (f'"{name}":[\n' + ",\n".join(rows) + "\n]" for name, rows in lists.items() if rows)
    return ",".join((compact(entry)[:-1], *written)) + "}"


def _row(row: dict[str, Any], configs: dict[str, int]) -> str:
    number = configs.setdefault(compact(row["config"]), len(configs))
    return compact(list((row | {"config": number}).values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path, help="only these files")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a table is outdated")
    options = parser.parse_args()
    given = documents(options.results or files(RESULTS, "**/*"))
    written = {file_name(table.device): text(table) for table in tables(given)}
    outdated = [name for name, content in written.items() if not has_text(DIRECTORY / name, content)]
    surplus = [] if options.results else [path for path in DIRECTORY.glob(f"*{SUFFIX}") if path.name not in written]
    if options.check and (outdated or surplus):
        named = ", ".join((*outdated, *(path.name for path in surplus)))
        sys.exit(f"not as the results make it: {named}; run `make recorded`")
    DIRECTORY.mkdir(exist_ok=True)
    for name in outdated:
        write_text(DIRECTORY / name, written[name])
    for path in surplus:
        path.unlink()


if __name__ == "__main__":
    main()
