"""How far `auto` is from the best kernel at shapes it has not seen: each shape of a recorded table is left out in turn.

    python -m benchmarks.cross_validate

What `auto` takes for the shape from the rest of the table is held against what was measured there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.auto_sample import geometric_mean
from kernels.choose import choose_from
from kernels.kernel import DeviceTraits
from kernels.tuned import TABLES, Entry, TunedTable

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Held:
    """A shape that was left out, and what was taken for it."""

    entry: Entry
    kernel: str
    why: str
    of_best: float  # its speed over that of the fastest there
    of_library: float | None  # and over the library's


def validated(table: TunedTable) -> Iterator[Held]:
    """Shapes where several kernels were measured, and among them the one that was taken."""
    device = DeviceTraits(
        table.device_class, table.compute_capability or (0, 0), 0, table.multiprocessors or 0, table.device
    )
    for entry in table.entries:
        speeds = {row.kernel: row.gflops for row in entry.ranking}
        if len(speeds) < 2:
            continue
        rest = replace(table, entries=tuple(one for one in table.entries if one.shape != entry.shape))
        taken = choose_from([rest], entry.problem, entry.accuracy, device)
        if (speed := speeds.get(taken.kernel.name)) is not None:
            library = speeds.get(entry.baseline or "")
            yield Held(
                entry, taken.kernel.name, taken.why, speed / max(speeds.values()), speed / library if library else None
            )


def main() -> None:
    for table in TABLES:
        held = list(validated(table))
        over = [one.of_library for one in held if one.of_library is not None]
        print(f"{table.device}: {len(held)} shapes left out in turn")
        print(f"of the best: {geometric_mean([one.of_best for one in held]):.3f}")
        print(f"over the library: {geometric_mean(over):.3f}, worst {min(over):.3f}")
        for one in sorted(held, key=lambda one: one.of_best)[:SHOWN]:
            print(f"{one.of_best:.3f} {one.entry.dtype} {one.entry.shape} {one.kernel}: {one.why}")


if __name__ == "__main__":
    main()
