"""Instruction counts of a compiled kernel, compared with those of the previous rung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.assembly import Assembly, assembly_of

MAX_ROWS = 16
MEANINGS = {
    "FFMA": "float32 multiply-add",
    "DFMA": "float64 multiply-add",
    "HMMA": "tensor cores, 16-bit",
    "IMMA": "tensor cores, integers",
    "DMMA": "tensor cores, float64",
    "HGMMA": "tensor cores of four warps, 16-bit",
    "QGMMA": "tensor cores of four warps, fp8",
    "IGMMA": "tensor cores of four warps, integers",
    "LDS": "load from shared memory, 4 bytes a thread",
    "LDS.64": "load from shared memory, 8 bytes a thread",
    "LDS.128": "load from shared memory, 16 bytes a thread",
    "STS": "store to shared memory, 4 bytes a thread",
    "STS.64": "store to shared memory, 8 bytes a thread",
    "STS.128": "store to shared memory, 16 bytes a thread",
    "LDG": "load from global memory, 4 bytes a thread",
    "LDG.64": "load from global memory, 8 bytes a thread",
    "LDG.128": "load from global memory, 16 bytes a thread",
    "STG": "store to global memory, 4 bytes a thread",
    "STG.128": "store to global memory, 16 bytes a thread",
    "LDGSTS.128": "copy from global to shared memory that nobody waits for (cp.async)",
    "LDGSTS": "copy from global to shared memory that nobody waits for (cp.async)",
    "UTMALDG": "bulk tensor copy into shared memory (TMA)",
    "BAR.SYNC": "all threads of the block wait for each other",
    "LDL": "load of a spilled register",
    "STL": "store of a spilled register",
    "IMAD": "integer multiply-add: addresses, and moves",
    "BRA": "branch",
}


@dataclass(frozen=True, slots=True)
class MixRow:
    """One instruction: its number of occurrences in the code, and in that of the previous rung (None if there is
    none).
    """

    name: str
    meaning: str
    count: int
    before: int | None

    @property
    def change(self) -> int:
        return self.count - (self.before or 0)


@dataclass(frozen=True, slots=True)
class Mix:
    """The most telling instructions, from SASS if it is recorded, otherwise from PTX."""

    assembly: Assembly
    form: str
    before: str | None
    rows: Sequence[MixRow]
    total: int
    total_before: int | None


def mix_of(name: str, before: str | None) -> Mix | None:
    """The instruction mix; None if nothing was recorded for the kernel."""
    own = assembly_of(name)
    if own is None:
        return None
    earlier = assembly_of(before) if before else None
    form = "sass" if "sass" in own.counts and (earlier is None or "sass" in earlier.counts) else "ptx"
    counts, others = own.instructions(form), earlier.instructions(form) if earlier else None
    names = {*counts, *(others or {})}

    def weight(each: str) -> tuple[int, bool, int]:
        change = abs(counts[each] - (others[each] if others else 0))
        return (counts[each] if others is None else change) * (4 if each in MEANINGS else 1), each in MEANINGS, change

    chosen = sorted(names, key=weight, reverse=True)[:MAX_ROWS]
    chosen.sort(key=lambda each: (each not in MEANINGS, -counts[each]))
    rows = [MixRow(each, MEANINGS.get(each, ""), counts[each], others[each] if others else None) for each in chosen]
    return Mix(own, form, before if earlier else None, rows, counts.total(), others.total() if others else None)
