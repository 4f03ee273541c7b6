"""Recorded benchmarks as compact rows: one line for each measured case.

A file (`.jsonl`) has a section for each benchmark. A section begins with a line that is a JSON object: the benchmark's
name, the content of GET /v1/benchmarks/{id}/results without its records, the `columns` of the rows, and the fields that
are the `same` in all of them. Each line after it is an array, one case. A dotted column is a field within a field;
rounds are lists, or one value if it is the same in all of them. Null is left out. Times and speeds keep twelve
significant digits, other numbers nine, and in a brief record all six. Any record may be compressed by gzip
(`.jsonl.gz`, `.json.gz`), and large ones are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from kernels.model.numerics import Problem
from kernels.text_files import GZIP, read_text, write_text

SUFFIX = ".jsonl"
EXACT = frozenset({"kernel_ms", "gflops"})  # other figures are computed from these
EXACT_DIGITS, DIGITS = 12, 9
BRIEF_DIGITS = 6  # of all numbers of a brief record: far finer than the difference between two runs
WHOLE = frozenset({"config"})  # fields that are not divided into columns
ROUNDS = "rounds"
# What a study of many shapes keeps of a case: its identity, its time in each round, its error, and disturbances.
BRIEF = frozenset(
    [
        "case",
        "round",
        "attempt",
        "kernel",
        "config",
        "device_class",
        "dtype",
        "accuracy",
        "m",
        "n",
        "k",
        "batch",
        "layout",
        "baseline",
        "status",
        "reason",
        "cache",
        "error_vs_float64",
        "contended",
        "throttled",
        "rounds",
        "fraction_of_baseline",
    ]
)
BRIEF_ROUND = frozenset({"round", "attempt", "status", "kernel_ms"})


def is_results(document: Any) -> bool:
    """Whether the document is a benchmark's results."""
    return isinstance(document, dict) and {"spec", "device", "records"} <= document.keys()


def read(path: Path) -> Any:
    """The document in the file: for a `.jsonl` file a benchmark's results, or several by their names; else its JSON."""
    text = read_text(path)
    return unpacked(text.splitlines()) if SUFFIX in path.suffixes else json.loads(text)


def write(path: Path, document: Mapping[str, Any], *, brief: bool = False) -> None:
    """Writes rows to a `.jsonl` file, else JSON. `brief`: for a study of so many shapes that only BRIEF is kept of a
    case.

    The file is complete at any moment."""
    lines = packed(document, brief=brief) if SUFFIX in path.suffixes else (compact(document),)
    write_text(path, "".join(f"{line}\n" for line in lines))


def files(folder: Path, pattern: str = "*") -> list[Path]:
    """Records in a folder, sorted by name."""
    suffixes = (plain + packed for plain in (".json", SUFFIX) for packed in ("", GZIP))
    return sorted(path for suffix in suffixes for path in folder.glob(pattern + suffix))


def find(folder: Path, name: str) -> Path | None:
    """The record of that name; None if nothing is recorded."""
    return next(iter(files(folder, name)), None)


def name_of(path: Path) -> str:
    """The name of a record, without the suffixes of its file."""
    return path.name.removesuffix(GZIP).rpartition(".")[0]


def packed(document: Mapping[str, Any], *, brief: bool = False) -> Iterator[str]:
    """The lines of a file."""
    if is_results(document):
        yield from _section(None, document, brief=brief)
        return
    others = {name: value for name, value in document.items() if not is_results(value)}
    yield compact({"besides": _rounded(others)})
    for name, value in document.items():
        if is_results(value):
            yield from _section(name, value, brief=brief)


def unpacked(lines: Iterable[str]) -> dict[str, Any]:
    """The document of a file's lines. Raises KeyError or ValueError for lines that `packed` does not write."""
    found: dict[str, Any] = {}
    alone: dict[str, Any] | None = None
    records: list[Any] = []
    columns: list[str] = []
    same: dict[str, Any] = {}
    for line in filter(None, lines):
        read_line = json.loads(line)
        if isinstance(read_line, list):
            records.append(_record(same | dict(zip(columns, read_line, strict=False))))
        elif "besides" in read_line:
            found |= read_line["besides"]
        else:
            records = []
            document = read_line["document"] | {"records": records}
            columns, same = read_line["columns"], read_line["same"]
            if (name := read_line["name"]) is None:
                alone = document
            else:
                found[name] = document
    return found if alone is None else alone


def _section(name: str | None, document: Mapping[str, Any], *, brief: bool) -> Iterator[str]:
    records = _brief(document["records"]) if brief else document["records"]
    digits = (BRIEF_DIGITS, BRIEF_DIGITS) if brief else (EXACT_DIGITS, DIGITS)
    rounded = [_rounded(record, *digits) for record in records]
    rows = [dict(_columns(record | {ROUNDS: _by_field(record[ROUNDS])})) for record in rounded]
    names = dict.fromkeys(column for row in rows for column in row)
    same = {name: rows[0][name] for name in names if all(row.get(name) == rows[0].get(name) for row in rows)}
    columns = [column for column in names if column not in same]
    rest = {field: value for field, value in document.items() if field != "records"}
    yield compact({"name": name, "document": rest, "columns": columns, "same": same})
    for row in rows:
        yield compact(_trimmed([row.get(column) for column in columns]))


def _brief(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Cases are numbered, and their numbers replace their ids."""
    numbers = {record["case"]: str(number) for number, record in enumerate(records)}
    return [
        {field: value for field, value in record.items() if field in BRIEF}
        | {field: numbers.get(record[field]) for field in ("case", "baseline") if field in record}
        | {ROUNDS: [{field: one[field] for field in sorted(BRIEF_ROUND & one.keys())} for one in record[ROUNDS]]}
        for record in records
    ]


def _columns(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field, value in record.items():
        if isinstance(value, dict) and value and field not in WHOLE:
            yield from _columns(value, f"{prefix}{field}.")
        elif value is not None:
            yield f"{prefix}{field}", value


def _by_field(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A list of each field's values by round; a single value if it is the same in all rounds, except for the round
    numbers."""
    values = {field: [one.get(field) for one in rounds] for field in dict.fromkeys(chain.from_iterable(rounds))}
    alike = {field: given[0] for field, given in values.items() if given.count(given[0]) == len(given)}
    return values | {field: value for field, value in alike.items() if field != "round"}


def _record(columns: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for column, value in columns.items():
        if value is not None:
            *outer, field = column.split(".")
            place = record
            for name in outer:
                place = place.setdefault(name, {})
            place[field] = value
    record[ROUNDS] = _rounds(record.get(ROUNDS, {}))
    problem = Problem(record["m"], record["n"], record["k"], record["dtype"], record["batch"])
    return {"flops": problem.flops, "bytes_min": problem.operand_bytes + problem.product_bytes} | record


def _rounds(by_field: Mapping[str, Any]) -> list[dict[str, Any]]:
    count = len(by_field.get("round", ()))
    lists = [given if isinstance(given, list) else [given] * count for given in by_field.values()]
    return [dict(zip(by_field, values, strict=True)) for values in zip(*lists, strict=True)]


def _trimmed(row: list[Any]) -> list[Any]:
    while row and row[-1] is None:
        row.pop()
    return row


def _rounded(value: Any, exact_digits: int = EXACT_DIGITS, digits: int = DIGITS, *, is_exact: bool = False) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one, exact_digits, digits, is_exact=name in EXACT) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one, exact_digits, digits, is_exact=is_exact) for one in value]
    return float(f"{value:.{exact_digits if is_exact else digits}g}") if isinstance(value, float) else value


def write_rows(path: Path, about: Mapping[str, Any], rows: Iterable[Any]) -> None:
    """Writes a JSON object with the fields of `about` and a line for each row. The file is complete at any moment."""
    lines = ",\n".join(compact(row) for row in rows)
    write_text(path, f'{compact(about)[:-1]},"rows":[\n{lines}\n]}}\n')


def record_rows(path: Path, about: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> None:
    """Prints the rows as they arrive, and rewrites the file with each: an interrupted run leaves what it has."""
    rows: list[Mapping[str, Any]] = []
    for row in measured:
        rows.append(row)
        print(row, flush=True)
        write_rows(path, about, rows)


def compact(value: Any) -> str:
    """JSON in one line, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
