"""What docs/performance.md says of a recorded `make bench-accuracy`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from scripts.markdown import table

LIBRARY = "cublas"


def accuracy(path: Path) -> Iterator[str]:
    """A section."""
    record = json.loads(path.read_bytes())
    rows = record["rows"]
    names = list(rows[0]["errors"])
    yield f"## Errors of float32 kernels on operands of every kind, on an {record['device']}"
    yield (
        f"Recorded {record['environment']['recorded_at']} by `make bench-accuracy` (seed {record['seed']}): relative "
        "Frobenius error against the product in float64. Bold: greater than the library's. The kinds are those of "
        "`benchmarks/operand_kinds.py`; where halves of k cancel, what is left is a thousandth of what was added."
    )
    columns = ("operands", "N", *(f"`{name}`" for name in names))
    yield table(columns, [(row["operands"], f"{row['n']}", *_errors(row["errors"], names)) for row in rows]).rstrip()
    for name in names:
        if name != LIBRARY and LIBRARY in names:
            smaller = sum(row["errors"][name] <= row["errors"][LIBRARY] for row in rows)
            yield f"`{name}`: no further off than the library in {smaller} of {len(rows)} rows."


def _errors(errors: dict[str, float], names: list[str]) -> Iterator[str]:
    limit = errors.get(LIBRARY, float("inf"))
    for name in names:
        yield f"**{errors[name]:.2e}**" if errors[name] > limit else f"{errors[name]:.2e}"
