"""How fast kernels should be on a product that was not measured, from shapes near it that were: by tiles and waves.

A kernel's speed over the library's changes slowly with the shape, but for two jumps that arithmetic tells: a tile that
is partly outside of the product costs as much as a whole one, and so does a wave of blocks that leaves multiprocessors
idle. So of each measured shape the speed over the library's is taken, freed of the jumps there, averaged in doublings
by nearness, and the jumps of the product at hand are put in again, in part: the library's tiles and waves jump as well.

A kernel that makes its products of another type's is not as exact as the library everywhere. Here its configs stand
for themselves, and one counts only if it was as exact at every shape near the product that it was tried at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

from kernels.architectures import ARCHITECTURES
from kernels.kernel import ConfigError, CudaKernel, DeviceTraits, Kernel, LibraryKernel, TileConfig
from kernels.numerics import DTypeName, Problem
from kernels.resources import records_of
from kernels.tuned import Entry, Row, Trial, doublings

# By leaving out each shape of the recorded tables in turn (benchmarks/cross_validate.py).
RISK = 0.06  # of a kernel's speed, for each doubling between the product and the nearest shape that it was measured at
SEEN = 0.4  # of what fuller tiles and waves gain, by a power: the library's own speed has jumps too
CROWD = 0.7  # blocks that share a multiprocessor take so much longer: to the power of how many there are
SHAPES, POINTS = 18, 6  # of the nearest shapes so many are looked at, and of a kernel so many of them
_Key = tuple[str, frozenset[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel at a measured shape."""

    kernel: Kernel
    config: TileConfig  # as it suits the product at hand
    row: Row
    entry: Entry
    speed: float  # over the fastest library's at that shape
    distance: float  # in doublings from the product at hand


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a kernel should reach. `point` is the nearest shape that says so."""

    point: Point
    speed: float  # over the fastest library's
    points: int

    @property
    def cautious(self) -> float:
        """With what a guess may cost taken off; a library adapts to a shape."""
        ours = not isinstance(self.point.kernel, LibraryKernel)
        return self.speed * (exp(-RISK * self.point.distance) if ours else 1.0)


def forecasts(
    entries: Iterable[Entry], fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits
) -> tuple[Forecast, ...]:
    """One for each kernel that was measured at any of these shapes."""
    together: dict[_Key, list[Point]] = {}
    for point in _points(tuple(entries), fit, problem, device):
        together.setdefault(_key(point.row), []).append(point)
    best: dict[str, Forecast] = {}
    for points in together.values():
        one, name = _forecast(points, problem, device), points[0].kernel.name
        if name not in best or one.cautious > best[name].cautious:
            best[name] = one
    return tuple(best.values())


def _key(row: Row) -> _Key:
    """Of what is forecast as one: a kernel in whichever config was best, or a config of one that was tried in each."""
    return row.kernel, frozenset(row.config.items() if isinstance(row, Trial) else ())


def _rows(entry: Entry, fit: Mapping[str, Kernel], problem: Problem, inexact: Collection[_Key]) -> Iterator[Row]:
    """What the entry says of kernels that fit: of its very shape, or of one near it."""
    if entry.is_of(problem):
        yield from (row for row in entry.ranking if row.kernel in fit)
        return
    yield from (row for row in entry.ranking if row.kernel in fit and fit[row.kernel].made_of is None)
    yield from (trial for trial in entry.trials if trial.kernel in fit and _key(trial) not in inexact)


def _points(
    entries: Collection[Entry], fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits
) -> Iterator[Point]:
    inexact = {_key(trial) for entry in entries for trial in entry.trials if not trial.is_as_exact}
    by_shape: dict[tuple[int, ...], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (doublings(entry.problem, problem), entry.shape)):
        by_shape.setdefault(entry.shape, []).append(entry)
    counted: Counter[_Key] = Counter()
    for together in list(by_shape.values())[:SHAPES]:
        rows = [(entry, row) for entry in together for row in _rows(entry, fit, problem, inexact)]
        libraries = [row.gflops for _, row in rows if isinstance(fit[row.kernel], LibraryKernel)]
        known = libraries or [row.gflops for _, row in rows]
        for entry, row in rows:
            if counted[_key(row)] == POINTS:
                continue
            try:
                config = fit[row.kernel].resolve_config(row.config, problem, device)
            except ConfigError:  # another device, or an entry that has changed since
                continue
            counted[_key(row)] += 1
            distance = doublings(entry.problem, problem)
            yield Point(fit[row.kernel], config, row, entry, row.gflops / max(known), distance)


def _forecast(points: list[Point], problem: Problem, device: DeviceTraits) -> Forecast:
    """`points`: the nearest first."""
    nearest = points[0]
    if nearest.distance == 0.0:
        return Forecast(nearest, nearest.speed, 1)
    weights = [1 / point.distance**2 for point in points]
    here = [log(point.speed * _gain(point, problem, device)) for point in points]
    total = sum(weight * each for weight, each in zip(weights, here, strict=True)) / sum(weights)
    return Forecast(nearest, exp(total), len(points))


def _gain(point: Point, problem: Problem, device: DeviceTraits) -> float:
    """How much better the product at hand fills tiles and waves than the measured one, in the same config."""
    if not isinstance(point.kernel, CudaKernel):
        return 1.0
    here, there = (filled(point.kernel, point.config, each, device) for each in (problem, point.entry.problem))
    return float((here / there) ** SEEN)


def filled(kernel: CudaKernel, config: TileConfig, problem: Problem, device: DeviceTraits) -> float:
    """Elements of the product over the time that its blocks take, in units of one block alone: speed follows it where
    only the shape changes."""
    elements = problem.batch * problem.m * problem.n
    launch, multiprocessors = kernel.launch(problem, config), max(device.multiprocessors, 1)
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if blocks < multiprocessors:  # a library leaves as many idle: speed over it follows what the tiles waste alone
        return elements * multiprocessors / blocks
    resident = 1 if launch.resident else _resident(kernel, config, problem, device)
    together, rest = divmod(-(-blocks // multiprocessors), resident)
    return float(elements / (together * resident**CROWD + rest**CROWD))


def _resident(kernel: CudaKernel, config: TileConfig, problem: Problem, device: DeviceTraits) -> int:
    launch = kernel.launch(problem, config)
    registers = _registers(kernel.name, tuple(config.items()), problem.dtype, device.compute_capability)
    shape = next((one for one in ARCHITECTURES.values() if one.compute_capability == device.compute_capability), None)
    if registers is None or shape is None:
        return 1
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    shared_bytes = kernel.shared_bytes(config, problem.dtype)
    return max(shape.resident_blocks(threads, registers, shared_bytes), 1)


@lru_cache(maxsize=4096)
def _registers(
    kernel: str, config: tuple[tuple[str, int], ...], dtype: DTypeName, capability: tuple[int, int]
) -> int | None:
    """Of a thread, as it was compiled."""
    records = records_of(kernel)
    record = records.find(dict(config), dtype) if records else None
    arch = f"sm_{capability[0]}{capability[1]}"
    usage = record.usage.get(arch) if record else None
    return usage.registers if usage else None
