"""Plots of tile configs: speed by config with one line for each size, and a map of configs and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Any

from analysis.curves import config_key, speed, usable
from analysis.measurement import Measurement
from analysis.plots.style import COLOURS, DASHES, INK, MARKERS, is_wide, legend, number, panels, values_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MAX_ON_AXIS, MAX_IN_MAP = 16, 24  # configs that can be read beside each other, and below each other
MANY_PANELS = 3
ROOM_FOR_LETTERS = 50  # along the x axis
MAX_SIZES_WITH_FIGURES = 11  # columns of a map that have room for numbers

Config = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A kernel's configs, at least two, by size: GFLOPS of each."""

    label: str
    dtype: str
    sizes: tuple[float, ...]
    configs: tuple[Config, ...]  # by their values
    gflops: dict[tuple[Config, float], float]


def sweeps(found: Sequence[Measurement]) -> tuple[Sweep, ...]:
    """Of each kernel and element type that was measured with more than one config at a size."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for one in filter(usable, found):
        groups.setdefault((one.label, one.dtype), []).append(one)
    made = (_sweep(label, dtype, group) for (label, dtype), group in groups.items())
    return tuple(sweep for sweep in made if _compares(sweep))


def _compares(sweep: Sweep) -> bool:
    """Whether a size was measured with two configs or more: a default that depends on the size is no sweep."""
    sizes = [size for _, size in sweep.gflops]
    return len(sizes) > len(set(sizes))


def _sweep(label: str, dtype: str, group: Sequence[Measurement]) -> Sweep:
    gflops: dict[tuple[Config, float], float] = {}
    for one in group:
        place = (config_key(one.config), one.size)
        gflops[place] = max(speed(one), gflops.get(place, 0.0))
    return Sweep(
        label=label,
        dtype=dtype,
        sizes=tuple(sorted({size for _, size in gflops})),
        configs=tuple(sorted({config for config, _ in gflops}, key=lambda config: [value for _, value in config])),
        gflops=gflops,
    )


def short(sweep: Sweep, config: Config) -> str:
    """Only the parameters in which the configs differ, by value."""
    names = differing(sweep)
    return "×".join(str(value) for name, value in config if name in names) or "default"


def differing(sweep: Sweep) -> list[str]:
    """Names of the parameters in which its configs differ, in the order that `short` has them."""
    names = dict.fromkeys(name for config in sweep.configs for name, _ in config)
    return [name for name in names if len({dict(config).get(name) for config in sweep.configs}) > 1]


def fastest(sweep: Sweep, limit: int) -> tuple[Config, ...]:
    """The configs with the highest mean speed over the sizes, in the sweep's order; all if they are few."""
    if len(sweep.configs) <= limit:
        return sweep.configs
    kept = sorted(sweep.configs, key=lambda config: -_mean_share(sweep, config))[:limit]
    return tuple(config for config in sweep.configs if config in kept)


def _mean_share(sweep: Sweep, config: Config) -> float:
    """Geometric mean of its speed over the fastest of each size; a size it has no figure for counts as a hundredth."""
    shares = [sweep.gflops.get((config, size), 0.0) / _best(sweep, size) for size in sweep.sizes]
    return exp(sum(log(max(share, 0.01)) for share in shares) / len(shares))


def _best(sweep: Sweep, size: float) -> float:
    return max(value for (_, at), value in sweep.gflops.items() if at == size)


def _title(sweep: Sweep, shown: int) -> str:
    of = f", the {shown} fastest of {len(sweep.configs)} configs" if shown < len(sweep.configs) else ""
    return f"{sweep.label}, {sweep.dtype}{of}"


def draw_block_sizes(found: Sequence[Measurement]) -> Figure:
    """A panel for each kernel: configs along the x axis, a line for each size."""
    shown = sweeps(found)
    sizes = sorted({size for sweep in shown for size in sweep.sizes})
    heights = [3.3 if len(shown) < MANY_PANELS else 2.4] * len(shown)
    figure, axes = panels(len(shown), heights_in=heights, names=[f"N = {size:.0f}" for size in sizes])
    for panel, sweep in zip(axes, shown, strict=True):
        _config_lines(panel, sweep, sizes)
    legend(figure, axes)
    return figure


def _config_lines(axes: Axes, sweep: Sweep, sizes: Sequence[float]) -> None:
    configs = fastest(sweep, MAX_ON_AXIS)
    for size in sweep.sizes:
        place = sizes.index(size)
        known = [(x, sweep.gflops[config, size]) for x, config in enumerate(configs) if (config, size) in sweep.gflops]
        x, y = zip(*known, strict=True) if known else ((), ())
        axes.plot(
            x,
            y,
            label=f"N = {size:.0f}",
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            linestyle=DASHES[(place // len(COLOURS)) % len(DASHES)],
        )
    labels = [short(sweep, config) for config in configs]
    slanted: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(configs)), labels=labels, **(slanted if len("".join(labels)) >= ROOM_FOR_LETTERS else {}))
    axes.set_xlabel("config: " + " × ".join(differing(sweep)))
    axes.set_title(_title(sweep, len(configs)))
    values_axis(axes, "GFLOPS", log=is_wide(list(sweep.gflops.values())))


def draw_heatmap(found: Sequence[Measurement]) -> Figure:
    """A panel for each kernel: configs by sizes, coloured by the share of the fastest config at that size."""
    shown = sweeps(found)
    heights = [1.0 + 0.25 * min(len(sweep.configs), MAX_IN_MAP) for sweep in shown]
    figure, axes = panels(len(shown), heights_in=heights, foot_in=0.55)
    images = [_map(panel, sweep) for panel, sweep in zip(axes, shown, strict=True)]
    foot = figure.add_axes((0.3, 0.4 / (sum(heights) + 0.55), 0.4, 0.1 / (sum(heights) + 0.55)))
    figure.colorbar(images[0], cax=foot, orientation="horizontal", label="% of the fastest config at that N")
    foot.spines["outline"].set_visible(False)
    return figure


def _map(axes: Axes, sweep: Sweep) -> AxesImage:
    configs = fastest(sweep, MAX_IN_MAP)
    gflops = [[sweep.gflops.get((config, size), float("nan")) for size in sweep.sizes] for config in configs]
    best = [_best(sweep, size) for size in sweep.sizes]
    percent = [[100 * value / top for value, top in zip(row, best, strict=True)] for row in gflops]
    image = axes.imshow(percent, aspect="auto", cmap="cividis", vmin=0, vmax=100)
    axes.set_xticks(range(len(sweep.sizes)), labels=[f"{size:.0f}" for size in sweep.sizes])
    axes.set_yticks(range(len(configs)), labels=[short(sweep, config) for config in configs])
    axes.set_xlabel("N (m = n = k)")
    axes.set_ylabel(" × ".join(differing(sweep)))
    axes.set_title(f"{_title(sweep, len(configs))}; GFLOPS, the fastest framed")
    axes.grid(visible=False)
    if len(sweep.sizes) <= MAX_SIZES_WITH_FIGURES:
        _figures(axes, gflops, percent)
    return image


def _figures(axes: Axes, gflops: Sequence[Sequence[float]], percent: Sequence[Sequence[float]]) -> None:
    for y, (row, shares) in enumerate(zip(gflops, percent, strict=True)):
        for x, (value, share) in enumerate(zip(row, shares, strict=True)):
            if value != value:  # not a number: it was not measured
                continue
            frame = {"boxstyle": "square,pad=0.15", "fill": False, "edgecolor": INK} if share == 100 else None
            colour = INK if share > 55 else "white"
            axes.text(x, y, number(round(value)), ha="center", va="center", fontsize=7.5, color=colour, bbox=frame)
