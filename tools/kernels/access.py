"""Which elements a kernel's blocks, warps and threads touch, as traced: what pictures and docs/kernels.md say of it.

python -m tools.kernels.access [--check] [KERNEL…]

Every kernel computes one tile of C at its default config (tools/kernels/trace.py); the outcome is kept in
docs/images/kernels/access.json. What was traced before from the same source and config is not traced again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.strict_json import parse
from tools.kernels import trace as traced
from tools.kernels.model import Model, model_of

FILE = traced.ROOT / "docs" / "images" / "kernels" / "access.json"
PROVENANCE = (*sorted(traced.RECORDER.iterdir()), Path(traced.__file__), Path(__file__))
Lane = tuple[int, int, int, int]  # lane of the warp; row and column of the first element it loads; how many
Rectangle = tuple[int, int, int, int]  # first row and column, rows, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One tile of C. Figures are bytes for each multiply-add, over all threads."""

    kernel: str
    dtype: DTypeName
    config: Mapping[str, int]
    key: str
    lanes_a: tuple[Lane, ...]  # the first warp's first load from A
    lanes_b: tuple[Lane, ...]
    c_of_warp: tuple[Rectangle, ...]  # what the first warp writes of C, and the first thread
    c_of_thread: tuple[Rectangle, ...]
    bytes_loaded: float  # that threads ask global memory for
    bytes_fetched: float  # of the sectors that the warps' loads touch
    used: float  # share of these that some thread of the warp asked for
    bytes_read: float  # that threads read from shared memory
    conflicts: float | None  # turns that shared memory takes, over the fewest possible; None: not used, or not known
    fragments: bool  # whether whole warps multiply, on tensor cores; which lane holds what of these is not known


def summed_up(model: Model, key: str) -> Access:
    """Traces it."""
    found, problem = traced.trace(model), traced.traced_problem(model)
    a, b = traced.of_spaces(found, traced.A), traced.of_spaces(found, traced.B)
    writes = traced.of_spaces(found, traced.C, stores=True)
    shared = [traced.of_spaces(found, traced.SHARED, traced.DYNAMIC_SHARED, stores=stores) for stores in (False, True)]
    turns, least = np.sum([traced.bank_turns(accesses) for accesses in shared], axis=0)
    multiply_adds = problem.flops // 2
    fetched = traced.fetched_bytes(a) + traced.fetched_bytes(b)
    return Access(
        kernel=model.kernel.name,
        dtype=model.dtype,
        config=dict(model.config),
        key=key,
        lanes_a=tuple(_lanes(a, DTYPES[model.dtype].itemsize)),
        lanes_b=tuple(_lanes(b, DTYPES[model.dtype].itemsize)),
        c_of_warp=_rectangles(writes[writes["thread"] < traced.WARP], problem),
        c_of_thread=_rectangles(writes[writes["thread"] == 0], problem),
        bytes_loaded=round(float(a["bytes"].sum() + b["bytes"].sum()) / multiply_adds, 4),
        bytes_fetched=round(fetched / multiply_adds, 4),
        used=round((traced.asked_bytes(a) + traced.asked_bytes(b)) / fetched, 4),
        bytes_read=round(float(shared[0]["bytes"].sum()) / multiply_adds, 4),
        conflicts=round(float(turns / least), 4) if least and not traced.has_fragments(model) else None,
        fragments=traced.has_fragments(model),
    )


def _lanes(loads: traced.Accesses, itemsize: int) -> Iterator[Lane]:
    for load in traced.first_instruction(loads):
        row, column = divmod(int(load["offset"]) // itemsize, traced.ROW_STEP)
        yield int(load["thread"]), row, column, int(load["bytes"]) // itemsize


def _rectangles(writes: traced.Accesses, problem: Problem) -> tuple[Rectangle, ...]:
    """The elements of C written, row runs joined where they are alike from row to row."""
    rows: dict[int, set[int]] = {}
    for row, column in traced.elements(writes, DTYPES[problem.product_dtype].itemsize).tolist():
        rows.setdefault(row, set()).add(column)
    open_runs: dict[tuple[int, int], int] = {}
    found: list[Rectangle] = []
    for row in range(problem.m + 1):
        runs = set(_runs(rows.get(row, set())))
        for (first, length), begin in [item for item in open_runs.items() if item[0] not in runs]:
            del open_runs[first, length]
            found.append((begin, first, row - begin, length))
        open_runs.update({run: row for run in runs if run not in open_runs})
    return tuple(sorted(found))


def _runs(columns: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First of each run of consecutive numbers, and how many."""
    ordered = np.array(sorted(columns), np.int64)
    for run in np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1):
        if len(run):
            yield int(run[0]), len(run)


def key_of(model: Model) -> str:
    """Of all that a trace follows from, but for the emulation itself."""
    program = traced.program_of(model)
    by = "".join(path.read_text("utf-8") for path in PROVENANCE)
    return hashlib.sha256(f"{program.key('', '')} {model.tile} {model.block} {by}".encode()).hexdigest()[:16]


def recorded(file: Path = FILE) -> dict[str, Access]:
    """By kernel. Raises DataError."""
    lines = json.loads(file.read_text("utf-8")) if file.exists() else []
    found = (parse(Access, json.dumps(line), file.name) for line in lines)
    return {access.kernel: access for access in found}


@cache
def access_of(kernel: str) -> Access | None:
    """None where it was not traced."""
    return recorded().get(kernel)


def text(accesses: Iterable[Access]) -> str:
    """One kernel a line."""
    return "[\n" + ",\n".join(json.dumps(asdict(access)) for access in accesses) + "\n]\n"


def models() -> dict[str, Model]:
    """Of the catalogue's CUDA kernels that can be emulated, in ladder order."""
    traced = (k for k in CATALOG if isinstance(k, CudaKernel) and not k.architecture_specific)
    return {kernel.name: model_of(kernel) for kernel in traced}


def stale(known: Mapping[str, Access]) -> list[str]:
    """Kernels of which these do not tell."""
    return [name for name, model in models().items() if name not in known or known[name].key != key_of(model)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="trace only these, where they changed")
    parser.add_argument("--check", action="store_true", help="trace and write nothing; exit 1 if the file is outdated")
    options, known, found = parser.parse_args(), recorded(), models()
    outdated = stale(known)
    if options.check:
        sys.exit(f"{FILE.name} is outdated: make docs" if outdated or list(known) != list(found) else 0)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    for name in outdated:
        if name in (options.kernels or outdated):
            known[name] = summed_up(found[name], key_of(found[name]))
            print(f"{name}: traced")
            FILE.write_text(text(known[each] for each in found if each in known), "utf-8")
    FILE.write_text(text(known[name] for name in found if name in known), "utf-8")


if __name__ == "__main__":
    main()
