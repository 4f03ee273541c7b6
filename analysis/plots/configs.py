"""Plots of tile configs: speed by config with one line for each size, and a grid of configs and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from analysis.curves import config_key, speed, usable
from analysis.measurement import Measurement, size_of
from analysis.plots.description import Axis, Cell, Chart, Grid, Series, is_wide
from analysis.plots.looks import look_of

MAX_ON_AXIS, MAX_IN_GRID = 16, 24  # configs that can be read beside each other, and below each other

Config = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """At least two configs of a kernel, with the GFLOPS of each by size."""

    label: str
    dtype: str
    sizes: tuple[str, ...]  # in words, by their operations
    configs: tuple[Config, ...]  # by their values
    gflops: dict[tuple[Config, str], float]


def sweeps(measurements: Sequence[Measurement]) -> tuple[Sweep, ...]:
    """A sweep for each kernel and element type that was measured with more than one config at a size."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in filter(usable, measurements):
        groups.setdefault((measurement.label, measurement.dtype), []).append(measurement)
    candidates = (_sweep(label, dtype, group) for (label, dtype), group in groups.items())
    return tuple(sweep for sweep in candidates if _compares(sweep))


def _compares(sweep: Sweep) -> bool:
    """Whether a size was measured with two or more configs: a default that depends on the size is no sweep."""
    sizes = [size for _, size in sweep.gflops]
    return len(sizes) > len(set(sizes))


def _sweep(label: str, dtype: str, group: Sequence[Measurement]) -> Sweep:
    gflops: dict[tuple[Config, str], float] = {}
    for measurement in group:
        place = (config_key(measurement.config), _size(measurement))
        gflops[place] = max(speed(measurement), gflops.get(place, 0.0))
    return Sweep(
        label=label,
        dtype=dtype,
        sizes=_sizes(group),
        configs=tuple(sorted({config for config, _ in gflops}, key=lambda config: [value for _, value in config])),
        gflops=gflops,
    )


def _sizes(group: Sequence[Measurement]) -> tuple[str, ...]:
    """All sizes, each once, those with the fewest operations first."""
    return tuple(dict.fromkeys(map(_size, sorted(group, key=lambda each: each.problem.flops))))


def _size(measurement: Measurement) -> str:
    return size_of(measurement.m, measurement.n, measurement.k, measurement.batch)


def short(sweep: Sweep, config: Config) -> str:
    """Only the parameters in which the configs differ, by value."""
    names = differing(sweep)
    return "×".join(str(value) for name, value in config if name in names) or "default"


def differing(sweep: Sweep) -> list[str]:
    """Names of the parameters in which its configs differ, in the order that `short` has them."""
    names = dict.fromkeys(name for config in sweep.configs for name, _ in config)
    return [name for name in names if len({dict(config).get(name) for config in sweep.configs}) > 1]


def fastest(sweep: Sweep, limit: int) -> tuple[Config, ...]:
    """The configs with the highest mean speed over the sizes, in the sweep's order; all of them if there are few."""
    if len(sweep.configs) <= limit:
        return sweep.configs
    kept = sorted(sweep.configs, key=lambda config: -_mean_share(sweep, config))[:limit]
    return tuple(config for config in sweep.configs if config in kept)


def _mean_share(sweep: Sweep, config: Config) -> float:
    """Geometric mean of its speed over the fastest at each size; a size without a figure counts as a hundredth."""
    shares = [sweep.gflops.get((config, size), 0.0) / _best(sweep, size) for size in sweep.sizes]
    return exp(sum(log(max(share, 0.01)) for share in shares) / len(shares))


def _best(sweep: Sweep, size: str) -> float:
    return max(value for (_, at), value in sweep.gflops.items() if at == size)


def _title(sweep: Sweep, shown: int) -> str:
    of = f", the {shown} fastest of {len(sweep.configs)} configs" if shown < len(sweep.configs) else ""
    return f"{sweep.label}, {sweep.dtype}{of}"


def config_lines(measurements: Sequence[Measurement]) -> tuple[Chart, ...]:
    """A chart for each kernel: configs along the x axis, a line for each size."""
    shown = sweeps(measurements)
    sizes = _sizes([each for each in measurements if usable(each)])
    return tuple(_config_chart(sweep, sizes) for sweep in shown)


def _config_chart(sweep: Sweep, sizes: Sequence[str]) -> Chart:
    """`sizes` are those of all charts, so that a size looks the same in each."""
    configs = fastest(sweep, MAX_ON_AXIS)

    def points(size: str) -> tuple[tuple[float, float], ...]:
        known = ((x, sweep.gflops.get((config, size))) for x, config in enumerate(configs))
        return tuple((x, gflops) for x, gflops in known if gflops is not None)

    return Chart(
        title=_title(sweep, len(configs)),
        x=Axis(
            label="config: " + " × ".join(differing(sweep)), names=tuple(short(sweep, config) for config in configs)
        ),
        y=Axis(label="GFLOPS", scale="log10" if is_wide(list(sweep.gflops.values())) else "linear"),
        series=tuple(
            Series(name=f"N = {size}" if size.isdigit() else size, look=look_of(sizes.index(size)), points=points(size))
            for size in sweep.sizes
        ),
    )


def config_grids(measurements: Sequence[Measurement], limit: int) -> tuple[Grid, ...]:
    """A grid for each kernel, with at most `limit` of its fastest configs."""
    return tuple(_grid(sweep, fastest(sweep, limit), measurements) for sweep in sweeps(measurements))


def _grid(sweep: Sweep, configs: Sequence[Config], measurements: Sequence[Measurement]) -> Grid:
    best = {size: _best(sweep, size) for size in sweep.sizes}
    mine = (each for each in measurements if usable(each) and (each.label, each.dtype) == (sweep.label, sweep.dtype))
    launches = {config_key(each.config): each for each in mine}

    def cell(config: Config, size: str) -> Cell | None:
        gflops = sweep.gflops.get((config, size))
        return None if gflops is None else Cell(gflops, gflops / best[size])

    return Grid(
        label=sweep.label,
        title=_title(sweep, len(configs)),
        parameters=" × ".join(differing(sweep)),
        sizes=sweep.sizes,
        configs=tuple(short(sweep, config) for config in configs),
        cells=tuple(tuple(cell(config, size) for size in sweep.sizes) for config in configs),
        measured=tuple(launches[config] for config in configs),
    )
