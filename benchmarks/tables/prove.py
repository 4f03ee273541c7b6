"""The section of docs/accuracy.md on recorded campaigns (`make prove`): an earlier version of the check and the current
one, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.recorded import files, find, name_of, read
from tools.markdown import table

Record = Mapping[str, Any]
PREFIX, BEFORE = "prove_", "prove_before_"
NOT_RECORDED = "not recorded"


def prove(results: Path) -> Iterator[str]:
    """A part for each device that has a record: prove_DEVICE, and prove_before_DEVICE of the earlier check."""
    names = map(name_of, files(results, f"{PREFIX}*"))
    devices = sorted({name.removeprefix(BEFORE).removeprefix(PREFIX) for name in names})
    for device in devices:
        paths = (find(results, f"{prefix}{device}") for prefix in (BEFORE, PREFIX))
        before, now = (read(path) if path else None for path in paths)
        yield from _device(before, now)


def _device(before: Record | None, now: Record | None) -> Iterator[str]:
    known = [record for record in (before, now) if record is not None]
    by_vectors = any(record.get("sketches") for record in known)
    yield f"### On an {known[0]['device']}" + (", small products by random vectors too" if by_vectors else "")
    yield " ".join(_when(name, one) for name, one in (("before", before), ("now", now)))
    names = dict.fromkeys(name for record in known for name in record["faults"])
    columns = ("fault", *(f"{what}, {when}" for when in ("before", "now") for what in ("caught", "worst missed")))
    rows = [(name, *_cells(before, name), *_cells(now, name), _in_noise(now, name)) for name in names]
    yield table((*columns, "below the noise of their row, now"), rows).rstrip()
    yield table(
        ("products without a fault", "before", "now"),
        [
            ("refused", _refused(before), _refused(now)),
            ("outside of their class, by every element in float64", _outside(before), _outside(now)),
        ],
    ).rstrip()


def _when(name: str, record: Record | None) -> str:
    if record is None:
        return f"The check {name}: {NOT_RECORDED}."
    injected = max(one["injected"] for one in record["faults"].values())
    when, seed = record["environment"]["recorded_at"], record["seed"]
    return f"The check {name}: recorded {when} (seed {seed}), up to {injected:,} faults of a kind."


def _cells(record: Record | None, name: str) -> tuple[str, str]:
    """How many of the faults above the bound of their class were caught; and the error of the worst missed one, in
    bounds."""
    fault = record["faults"].get(name) if record is not None else None
    if fault is None or not fault["above"]:
        return NOT_RECORDED, ""
    share = fault["caught"] / fault["above"]
    caught = "all" if not fault["missed"] else f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"
    return f"{caught} of {fault['above']:,}", f"{fault['worst_missed']}" if fault["missed"] else ""


def _in_noise(record: Record | None, name: str) -> str:
    """Faults above the bound of their class that the check does not promise to find (`worker/check/verify.py`)."""
    one = record["faults"].get(name, {}) if record is not None else {}
    return f"{one['in_noise']:,}" if one.get("in_noise") else ""


def _refused(record: Record | None) -> str:
    if record is None:
        return NOT_RECORDED
    return f"{record['clean']['refused']:,} of {record['clean']['products']:,}"


def _outside(record: Record | None) -> str:
    if record is None:
        return NOT_RECORDED
    return f"{record['outside_their_class']['products']:,} of {record['scenes']:,}"
