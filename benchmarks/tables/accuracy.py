"""The section of docs/accuracy.md on a recorded `make bench-accuracy`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table

LIBRARY = "cublas"
FIELDS = {  # fields of a recorded row, with the headings of their tables
    "errors": "Relative error in the Frobenius norm",
    "worst_row": "Relative error of the worst row",
    "worst_column": "Relative error of the worst column",
    "worst_element": "Error of the worst element over the bound of the kernel's class",
}
COMPARED = {"errors": "in the Frobenius norm", "worst_row": "in the worst row", "worst_column": "in the worst column"}
Row = Mapping[str, Any]


def accuracy(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = read(path)
    rows: Sequence[Row] = record["rows"]
    names = list(rows[0]["errors"])
    yield f"### Errors of float32 kernels on operands of many kinds, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `make bench-accuracy` (seed {record['seed']}), against "
        "the product in float64. Bold: greater than the library's. The kinds are those of "
        "`benchmarks/operand_kinds.py`; where halves of k cancel, what is left is a thousandth of what was added."
    )
    for field, heading in FIELDS.items():
        if all(field in row for row in rows):
            yield f"{heading}:"
            yield _errors(rows, field, names)
        else:
            yield f"{heading}: not recorded."
    yield from _beside_library(rows, names)


def _errors(rows: Sequence[Row], field: str, names: Sequence[str]) -> str:
    columns = ("operands", "N", *(f"`{name}`" for name in names))
    return table(columns, [(row["operands"], f"{row['n']}", *_cells(row[field], names)) for row in rows]).rstrip()


def _cells(errors: Mapping[str, float], names: Sequence[str]) -> Iterator[str]:
    limit = errors.get(LIBRARY, float("inf"))
    for name in names:
        yield f"**{errors[name]:.2e}**" if errors[name] > limit else f"{errors[name]:.2e}"


def _beside_library(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """In how many rows a kernel is as accurate as the library, for each norm that was recorded."""
    if LIBRARY not in names:
        return
    recorded = {field: norm for field, norm in COMPARED.items() if all(field in row for row in rows)}
    missing = " or ".join(norm for field, norm in COMPARED.items() if field not in recorded)
    for name in names:
        if name != LIBRARY:
            counts = (
                f"{sum(row[field][name] <= row[field][LIBRARY] for row in rows)} {norm}"
                for field, norm in recorded.items()
            )
            unknown = f"; not recorded {missing}" if missing else ""
            among = f"{', '.join(counts)}{unknown}"
            yield f"`{name}`: no further off than the library, of {len(rows)} products, in {among}."
