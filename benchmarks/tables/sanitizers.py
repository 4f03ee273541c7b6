"""The section of docs/performance.md on a recorded `make sanitize`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.recorded import read
from tools.markdown import table


def sanitizers(path: Path) -> Iterator[str]:
    """The parts of the section."""
    record = read(path)
    by_tool: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        by_tool.setdefault(row["tool"], []).append(row)
    yield f"## CUDA kernels under compute-sanitizer, on an {record['device']}"
    yield (
        "Recorded by `make sanitize`. Each kernel is launched in each of its types, with each option and epilogue, and "
        "with tiles cut along k and with several tiles for a block. Kernels that run on one architecture alone have a "
        "process each."
        f"{_explained(by_tool)}"
    )
    yield table(("tool", "kernels", "launches", "result"), [_cells(*one) for one in by_tool.items()]).rstrip()


def _explained(by_tool: dict[str, list[dict[str, Any]]]) -> str:
    is_clean = all(row["verdict"] == "clean" for rows in by_tool.values() for row in rows)
    return "" if is_clean else " On what was found: [decision 110](decisions/0110-warps-that-run-ahead.md)."


def _cells(tool: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    kernels, launches = sum(len(row["kernels"]) for row in rows), sum(row["launches"] or 0 for row in rows)
    others = [f"{_names(row)}: {row['verdict']}" for row in rows if row["verdict"] != "clean"]
    return tool, f"{kernels}", f"{launches:,}", "; ".join(others) or "clean"


def _names(row: dict[str, Any]) -> str:
    first, *more = row["kernels"]
    return f"`{first}` and {len(more)} more" if more else f"`{first}`"
