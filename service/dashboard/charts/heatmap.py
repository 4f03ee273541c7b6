"""Tile configs by size as maps, with what each config takes of a multiprocessor beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from analysis.curves import config_key, usable
from analysis.measurement import Measurement
from analysis.plots.configs import Config, Sweep, differing, fastest, short, sweeps
from service.dashboard.charts.svg import LETTER, Drawing, format_number
from service.dashboard.words import UNKNOWN, percent

MAX_ROWS = 60
ROW, TOP, CELL, FOOT = 22, 24, 62, 6
BESIDE = (("registers", 100), ("occupancy", 84))
DARK_FROM = 0.55  # shares from which a cell's words stand on the full colour


def draw(found: Sequence[Measurement]) -> list[tuple[str, Markup]]:
    """A heading and a map for each kernel and element type that was measured with several configs."""
    return [(_heading(sweep), _map(sweep, _launches(found, sweep))) for sweep in sweeps(found)]


def _heading(sweep: Sweep) -> str:
    shown = min(len(sweep.configs), MAX_ROWS)
    of = f", the {shown} fastest of {len(sweep.configs)} configs" if shown < len(sweep.configs) else ""
    return f"{sweep.label}, {sweep.dtype}{of}, by {' × '.join(differing(sweep)) or 'size'}"


def _launches(found: Sequence[Measurement], sweep: Sweep) -> Mapping[Config, Measurement]:
    """A measurement of each config, for what the compiler and the device say of it."""
    mine = (one for one in found if usable(one) and (one.label, one.dtype) == (sweep.label, sweep.dtype))
    return {config_key(one.config): one for one in mine}


def beside(one: Measurement | None) -> tuple[str, str]:
    """Registers, with what was spilled, and occupancy."""
    if one is None or one.registers is None:
        return UNKNOWN, percent(one.occupancy if one else None)
    return f"{one.registers}{' + spills' if one.local_bytes else ''}", percent(one.occupancy)


def _map(sweep: Sweep, launches: Mapping[Config, Measurement]) -> Markup:
    configs = fastest(sweep, MAX_ROWS)
    left = 12 + LETTER * max(len(short(sweep, config)) for config in configs)
    right = left + CELL * len(sweep.sizes)
    width = right + sum(room for _, room in BESIDE) + 8
    picture = Drawing(width, TOP + ROW * len(configs) + FOOT, f"GFLOPS of {sweep.label} by config and size.")
    for place, size in enumerate(sweep.sizes):
        picture.text(left + CELL * (place + 0.5), TOP - 8, f"{size:.0f}", anchor="middle", kind="faint")
    _columns(picture, right, TOP - 8, [name for name, _ in BESIDE], "faint")
    best = {size: max(value for (_, at), value in sweep.gflops.items() if at == size) for size in sweep.sizes}
    for row, config in enumerate(configs):
        top = TOP + ROW * row
        picture.text(left - 8, top + 15, short(sweep, config), anchor="end")
        for place, size in enumerate(sweep.sizes):
            if (value := sweep.gflops.get((config, size))) is not None:
                _cell(picture, f"{short(sweep, config)} at {size:.0f}", value, best[size], left + CELL * place, top)
        _columns(picture, right, top + 15, beside(launches.get(config)), "")
    return picture.svg()


def _columns(picture: Drawing, x: float, y: float, words: Sequence[str], kind: str) -> None:
    for text, (_, room) in zip(words, BESIDE, strict=True):
        x += room
        picture.text(x, y, text, anchor="end", kind=kind)


def _cell(picture: Drawing, name: str, value: float, best: float, x: float, y: float) -> None:
    share = value / best
    picture.begin(f"{name}: {format_number(value)} GFLOPS, {percent(share)} of the fastest config there")
    picture.rectangle("warm", x + 1, y + 1, CELL - 2, ROW - 2, opacity=max(0.06, share**2))
    if share == 1:
        picture.rectangle("frame", x + 1, y + 1, CELL - 2, ROW - 2)
    kind = "on-warm" if share**2 > DARK_FROM else ""
    picture.text(x + CELL / 2, y + 15, format_number(value), anchor="middle", kind=kind)
    picture.end()
