"""The fastest config of each kernel at each shape, and why it is faster than the next."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from analysis.curves import case_key, rank, speed, usable
from analysis.measurement import Measurement
from analysis.roofline import moved_bytes
from analysis.tiling import Tiling, tiling

NOTABLE = 1.01  # smaller ratios get no sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A kernel's fastest config for a product, the second fastest, and sentences on what the first does better."""

    measurement: Measurement
    second: Measurement | None  # None if only one config was measured
    ratio: float | None  # speed over the second's
    reasons: tuple[str, ...]  # empty if nothing that is known explains it


def best_configs(measurements: Iterable[Measurement]) -> tuple[Best, ...]:
    """In order of first appearance of each kernel and product. A config measured several times counts with its best
    figure."""
    groups: dict[Hashable, dict[Hashable, Measurement]] = {}
    for measurement in filter(usable, measurements):
        by_config = groups.setdefault((measurement.kernel or measurement.label, case_key(measurement)), {})
        config = tuple(sorted(measurement.config.items()))
        if config not in by_config or rank(measurement) > rank(by_config[config]):
            by_config[config] = measurement
    return tuple(_best(sorted(group.values(), key=rank, reverse=True)) for group in groups.values())


def _best(ordered: list[Measurement]) -> Best:
    first = ordered[0]
    if len(ordered) == 1:
        return Best(measurement=first, second=None, ratio=None, reasons=())
    second = ordered[1]
    ratio = speed(first) / speed(second)
    disturbed = tuple(f"Not comparable. {one.condition.sentence}" for one in ordered[:2] if not one.condition.is_clean)
    reasons = disturbed[:1] or tuple(why_better(first, second))
    return Best(measurement=first, second=second, ratio=None if disturbed else ratio, reasons=reasons)


def why_better(first: Measurement, second: Measurement) -> list[str]:
    """Advantages of the first, each a sentence with both numbers: spills, tiles, waves, bytes, occupancy."""
    return [*_registers(first, second), *_tiles(first, second), *_bytes(first, second), *_occupancy(first, second)]


def _registers(first: Measurement, second: Measurement) -> Iterable[str]:
    if first.local_bytes == 0 and second.local_bytes:
        yield f"Its registers suffice; the second keeps {second.local_bytes} bytes of a thread in local memory."


def _tiles(first: Measurement, second: Measurement) -> Iterable[str]:
    mine, other = tiling(first), tiling(second)
    if mine is None or other is None:
        return
    if mine.useful > NOTABLE * other.useful:
        yield f"{_padding(mine)}; the second's {_padding(other)}."
    yield from _busy(mine, other)


def _padding(cut: Tiling) -> str:
    return f"{cut.tiles} tiles of {cut.tile.rows}×{cut.tile.columns} are {100 * (1 - cut.useful):.1f} % padding"


def _busy(mine: Tiling, other: Tiling) -> Iterable[str]:
    """How evenly the multiprocessors are loaded, by waves, or by tiles per multiprocessor if the number of resident
    blocks is unknown."""
    if mine.resident is None or other.resident is None:
        mine, other = mine.by_waves, other.by_waves
    if mine.filled and other.filled and mine.filled > NOTABLE * other.filled:
        yield f"{_filling(mine)}; the second's {_filling(other)}."


def _filling(cut: Tiling) -> str:
    assert cut.filled is not None and cut.passes is not None
    of = "turns" if cut.resident is None else "waves"
    share = f"{100 * cut.filled:.1f} %"
    return f"{cut.blocks} blocks fill {share} of {cut.passes} {of} of {cut.multiprocessors} multiprocessors"


def _bytes(first: Measurement, second: Measurement) -> Iterable[str]:
    mine, other = moved_bytes(first, "tile"), moved_bytes(second, "tile")
    if mine and other and other > NOTABLE * mine:
        flops = first.problem.flops
        yield f"Its tiles do {flops / mine:.1f} operations for each byte they read, the second's {flops / other:.1f}."


def _occupancy(first: Measurement, second: Measurement) -> Iterable[str]:
    mine, other = first.occupancy, second.occupancy
    if mine is not None and other is not None and mine > NOTABLE * other:
        yield (
            f"{100 * mine:.0f} % of the warps find room ({_held(first)}), with the second {100 * other:.0f} % "
            f"({_held(second)})."
        )


def _held(measurement: Measurement) -> str:
    known = (
        None if measurement.registers is None else f"{measurement.registers} registers a thread",
        None if measurement.shared_bytes is None else f"{measurement.shared_bytes} bytes of shared memory a block",
    )
    return ", ".join(filter(None, known)) or "registers unknown"
