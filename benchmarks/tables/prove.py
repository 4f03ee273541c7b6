"""The section of docs/accuracy.md on recorded campaigns (`make prove`): the current check and, where it was recorded,
an earlier version beside it.
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
        paths = {when: find(results, f"{prefix}{device}") for when, prefix in (("before", BEFORE), ("now", PREFIX))}
        yield from _device({when: read(path) for when, path in paths.items() if path})


def _device(records: Mapping[str, Record]) -> Iterator[str]:
    """`records`: by the version of the check, before or now, as far as there are any."""
    known = [*records.values()]
    by_vectors = any(record.get("sketches") for record in known)
    yield f"### On an {known[0]['device']}" + (", small products by random vectors too" if by_vectors else "")
    sides = [*records] if len(known) > 1 else [""]
    recorded = zip(sides, known, strict=True)
    yield " ".join(f"{f'The check {side}'.rstrip()}: {_recorded(record)}." for side, record in recorded)
    columns = (f"{what}, {side}".rstrip(", ") for side in sides for what in ("caught", "worst missed"))
    noise = f"below the noise of their row, {sides[-1]}".rstrip(", ")
    names = dict.fromkeys(name for record in known for name in record["faults"])
    rows = [
        (name, *(cell for one in known for cell in _cells(one, name)), _in_noise(known[-1], name)) for name in names
    ]
    yield table(("fault", *columns, noise), rows).rstrip()
    yield table(
        ("products without a fault", *sides),
        [
            ("refused", *map(_refused, known)),
            ("outside of their class, by every element in float64", *map(_outside, known)),
        ],
    ).rstrip()


def _recorded(record: Record) -> str:
    injected = max(one["injected"] for one in record["faults"].values())
    when, seed = record["environment"]["recorded_at"], record["seed"]
    return f"recorded {when} (seed {seed}), up to {injected:,} faults of a kind"


def _cells(record: Record, name: str) -> tuple[str, str]:
    """How many of the faults above the bound of their class were caught; and the error of the worst missed one, in
    bounds."""
    fault = record["faults"].get(name)
    if fault is None or not fault["above"]:
        return NOT_RECORDED, ""
    share = fault["caught"] / fault["above"]
    caught = "all" if not fault["missed"] else f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"
    return f"{caught} of {fault['above']:,}", f"{fault['worst_missed']}" if fault["missed"] else ""


def _in_noise(record: Record, name: str) -> str:
    """Faults above the bound of their class that the check does not promise to find (`worker/check/verify.py`)."""
    one = record["faults"].get(name, {})
    return f"{one['in_noise']:,}" if one.get("in_noise") else ""


def _refused(record: Record) -> str:
    return f"{record['clean']['refused']:,} of {record['clean']['products']:,}"


def _outside(record: Record) -> str:
    return f"{record['outside_their_class']['products']:,} of {record['scenes']:,}"
