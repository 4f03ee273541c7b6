"""The memory-access picture of a kernel: what a block, a warp and a thread touch, drawn from a trace of its default.

A kernel whose instructions cannot be emulated is not traced: its picture tells of blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES
from tools.kernels.access import Access, Lane, access_of
from tools.kernels.model import Model, model_of
from tools.kernels.trace import SECTOR_BYTES
from tools.kernels.words import Cells, described, flow_in_words, load_in_words, step_in_words
from tools.svg import Picture

MARGIN, GAP, TOP = 24, 14, 104
SIDE, BOTH = 320, 460  # most of the larger side of the block's tile, and of that and a step of k together
WINDOW = 132  # at least so much of A and B is shown along k
MIN_WIDTH = 930  # of the picture
MIN_ELEMENT_WIDTH = 4  # of a thread's element, so that it is seen
COLUMN = 312  # of what stands right of the matrices
FLOW, ARROW = 144, 148  # below them: the height, and the length of an arrow
LINE_BYTES, MAX_LINES, LINE_HEIGHT = 128, 4, 13
LEGEND = (
    ("block", "block: what it brings in together, and its tile of C"),
    ("warp", "first warp: first load, its part of C"),
    ("thread", "first thread"),
    ("waste", "fetched, not used"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The places of the three matrices: A left of C, B above it, all at one scale."""

    scale: float  # pixels of an element
    rows: int
    columns: int
    shown: int  # steps of k

    @classmethod
    def of(cls, model: Model) -> Frame:
        rows, columns = model.tile
        scale = min(SIDE / max(rows, columns), BOTH / (max(rows, columns) + model.depth))
        return cls(scale, rows, columns, max(model.depth, ceil(WINDOW / scale)))

    @property
    def left(self) -> float:
        """The left edge of C and B."""
        return MARGIN + self.shown * self.scale + GAP

    @property
    def top(self) -> float:
        """The top edge of C and A."""
        return TOP + self.shown * self.scale + GAP

    @property
    def right(self) -> float:
        return self.left + self.columns * self.scale

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.scale


def pictures() -> Iterator[tuple[str, str]]:
    """Pictures by kernel."""
    for kernel in CATALOG:
        if isinstance(kernel, CudaKernel):
            yield kernel.name, picture(model_of(kernel), access_of(kernel.name))


def picture(model: Model, access: Access | None) -> str:
    """The picture as SVG."""
    frame = Frame.of(model)
    width = max(frame.right + 2 * MARGIN + COLUMN + MARGIN, MIN_WIDTH)
    name = model.kernel.name
    drawn = Picture(width, 0, f"{name}: memory accesses", " ".join(described(model, access)))
    drawn.text(MARGIN, 32, name, size=18, weight="bold")
    config = ", ".join(f"{parameter} {value}" for parameter, value in model.config.items())
    share = f"; {model.splits} blocks share this tile of C, each with a part of k" if model.splits > 1 else ""
    drawn.text(MARGIN, 54, config, kind="quiet")
    drawn.text(MARGIN, 72, f"{model.dtype}; {model.threads} threads a block{share}", kind="quiet")
    _matrices(drawn, frame, model, access)
    bottom = frame.bottom + 20
    right = width - MARGIN - COLUMN
    if access:
        bottom = max(bottom, _column(drawn, right, model, access))
    else:
        drawn.text(right, TOP + 12, "Not traced", weight="bold")
        drawn.text(right, TOP + 32, "What warps and threads touch is not known.", size=12)
    _legend(drawn, bottom + 34, LEGEND if access else LEGEND[:1])
    _flow(drawn, bottom + 54, model, access)
    drawn.height = bottom + FLOW
    return drawn.svg()


def _column(drawn: Picture, x: float, model: Model, access: Access) -> float:
    """What a warp loads and a thread computes; returns where it ends."""
    y = TOP + 2.0
    for operand, lanes in (("A", access.lanes_a), ("B", access.lanes_b)):
        y = _load(drawn, x, y, operand, lanes, DTYPES[model.dtype].itemsize) + 28
    return _step(drawn, x, y, model, access)


def _matrices(drawn: Picture, at: Frame, model: Model, access: Access | None) -> None:
    s, k = at.scale, at.shown
    matrices = ((MARGIN, at.top, k, at.rows), (at.left, TOP, at.columns, k), (at.left, at.top, at.columns, at.rows))
    for x, y, columns, rows in matrices:
        drawn.rectangle("matrix", x, y, columns * s, rows * s)
    drawn.rectangle("block", MARGIN, at.top, model.depth * s, at.rows * s)
    drawn.rectangle("block", at.left, TOP, at.columns * s, model.depth * s)
    drawn.rectangle("block", at.left, at.top, at.columns * s, at.rows * s)
    for x, y, columns, rows in matrices:
        drawn.lines("grid", _grid(x, y, columns, rows, s), width=0.6)
    if access:
        _touched(drawn, at, model.depth, access)
    for x, y, columns, rows in matrices:
        drawn.lines("edge", _outline(x, y, columns * s, rows * s))
    if access:
        _ticks(drawn, at, access)
    drawn.text(MARGIN, at.bottom + 20, f"A: {at.rows} rows, k →", kind="quiet")
    drawn.text(at.left, at.bottom + 20, f"C: {at.rows} × {at.columns}", kind="quiet")
    drawn.text(at.left, TOP - 8, f"B: k ↓, {at.columns} columns", kind="quiet")


def _touched(drawn: Picture, at: Frame, depth: int, access: Access) -> None:
    """By the first warp and its first thread; of k, within the tile that comes first, be it the last."""
    s = at.scale
    of_a = [(lane, row, column % depth, count) for lane, row, column, count in access.lanes_a]
    of_b = [(lane, row % depth, column, count) for lane, row, column, count in access.lanes_b]
    for x, y, lanes in ((MARGIN, at.top, of_a), (at.left, TOP, of_b)):
        _cells(drawn, "warp", x, y, s, [(row, column, 1, count) for _, row, column, count in lanes])
        _cells(drawn, "thread", x, y, s, [(row, column, 1, count) for lane, row, column, count in lanes if lane == 0])
    _cells(drawn, "warp", at.left, at.top, s, access.c_of_warp)
    _cells(drawn, "thread", at.left, at.top, s, access.c_of_thread)


def _cells(drawn: Picture, kind: str, x: float, y: float, scale: float, cells: Cells) -> None:
    min_width = MIN_ELEMENT_WIDTH if kind == "thread" else 0
    drawn.rectangles(
        kind,
        (
            (x + column * scale, y + row * scale, max(columns * scale, min_width), max(rows * scale, min_width))
            for row, column, rows, columns in cells
        ),
    )


def _grid(x: float, y: float, columns: int, rows: int, scale: float) -> list[tuple[float, float, float, float]]:
    """Lines between elements or, where these are small, between groups of eight."""
    step = 1 if scale >= 6 else 8
    down = [(x + i * scale, y, x + i * scale, y + rows * scale) for i in range(step, columns, step)]
    return down + [(x, y + i * scale, x + columns * scale, y + i * scale) for i in range(step, rows, step)]


def _outline(x: float, y: float, width: float, height: float) -> list[tuple[float, float, float, float]]:
    right, bottom = x + width, y + height
    return [(x, y, right, y), (right, y, right, bottom), (right, bottom, x, bottom), (x, bottom, x, y)]


def _ticks(drawn: Picture, at: Frame, access: Access) -> None:
    """Beside C, the rows of A and the columns of B that its first thread multiplies."""
    for row, column, rows, columns in access.c_of_thread:
        if column == min(each[1] for each in access.c_of_thread):
            drawn.rectangle("thread", at.left - GAP + 4, at.top + row * at.scale, 6, rows * at.scale)
        if row == min(each[0] for each in access.c_of_thread):
            drawn.rectangle("thread", at.left + column * at.scale, at.top - GAP + 4, columns * at.scale, 6)


def _legend(drawn: Picture, y: float, shown: Sequence[tuple[str, str]]) -> None:
    x: float = MARGIN
    for kind, words in shown:
        drawn.rectangle(kind, x, y - 10, 12, 12, round=2)
        drawn.text(x + 18, y, words, size=12)
        x += 18 + 6.2 * len(words) + 20


def _load(drawn: Picture, x: float, y: float, operand: str, lanes: Sequence[Lane], itemsize: int) -> float:
    """The lines of memory that the first warp's first load touches; returns where it ends."""
    drawn.text(x, y, f"First load of a warp from {operand}", weight="bold")
    touched = sorted({(row, column * itemsize // LINE_BYTES) for _, row, column, _ in lanes})
    y += 12
    for index, (row, line) in enumerate(touched[:MAX_LINES]):
        again = index > 0 and touched[index - 1][0] == row
        label = f"+ {line * LINE_BYTES} B" if again else f"{'row' if operand == 'A' else 'k'} {row}"
        drawn.text(x, y + 11, label, size=12, kind="quiet")
        of_line = [
            (lane, column * itemsize - line * LINE_BYTES, count * itemsize)
            for lane, its_row, column, count in lanes
            if (its_row, column * itemsize // LINE_BYTES) == (row, line)
        ]
        _memory_line(drawn, x + 56, y, of_line)
        y += LINE_HEIGHT + 6
    if len(touched) > MAX_LINES:
        drawn.text(x + 56, y + 9, f"and {len(touched) - MAX_LINES} more like these", size=12, kind="quiet")
        y += LINE_HEIGHT + 2
    asked, fetched = load_in_words(lanes, itemsize)
    drawn.text(x, y + 13, asked, size=12)
    drawn.text(x, y + 29, fetched, size=12)
    return y + 29


def _memory_line(drawn: Picture, x: float, y: float, lanes: Iterable[tuple[int, int, int]]) -> None:
    """128 bytes of memory in sectors, and the (lane, first byte, bytes) that lanes ask for."""
    scale, asked = (COLUMN - 56) / LINE_BYTES, sorted(lanes, reverse=True)
    drawn.rectangle("matrix", x, y, LINE_BYTES * scale, LINE_HEIGHT)
    for sector in sorted({first // SECTOR_BYTES for _, first, _ in asked}):
        drawn.rectangle("waste", x + sector * SECTOR_BYTES * scale, y, SECTOR_BYTES * scale, LINE_HEIGHT)
    boxes = [(lane, (x + first * scale, y, length * scale - 0.7, LINE_HEIGHT)) for lane, first, length in asked]
    drawn.rectangles("warp", (box for lane, box in boxes if lane))
    drawn.rectangles("thread", (box for lane, box in boxes if not lane))
    edges = [x + at * scale for at in range(0, LINE_BYTES + 1, SECTOR_BYTES)]
    drawn.lines("sector", [(at, y - 2, at, y + LINE_HEIGHT + 2) for at in edges])


def _step(drawn: Picture, x: float, y: float, model: Model, access: Access) -> float:
    """What meets what in one step, a thread's outer product or a warp's product of fragments; returns where it ends."""
    rows, columns, title, words = step_in_words(model, access)
    drawn.text(x, y, title, weight="bold")
    y += 14
    cell = min(14.0, 112 / max(rows, columns))
    drawn.text(x, y + 13 + cell, "A", size=12, kind="quiet")
    drawn.text(x + 18 + cell, y + 10, "B", size=12, kind="quiet")
    left, top = x + 14 + cell + 6, y + 14 + cell + 4
    kind = "warp" if access.fragments else "thread"
    for fill, at_x, at_y, across, down in (
        (kind, left - cell - 6, top, 1, rows),
        (kind, left, top - cell - 6, columns, 1),
        ("block", left, top, columns, rows),
    ):
        drawn.rectangle(fill, at_x, at_y, across * cell, down * cell)
        drawn.lines("ground-line", _grid(at_x, at_y, across, down, cell))
    for index, line in enumerate(words):
        drawn.text(left + columns * cell + 16, top + 12 + 17 * index, line, size=12)
    return top + max(rows * cell, 17.0 * len(words))


def _flow(drawn: Picture, y: float, model: Model, access: Access | None) -> None:
    """The path from memory to registers, with the sizes that move."""
    places = flow_in_words(model, access)
    width = (drawn.width - 2 * MARGIN - ARROW * (len(places) - 1)) / len(places)
    x: float = MARGIN
    for index, place in enumerate(places):
        if index:
            middle, head = y + 34, x + ARROW - 8
            drawn.lines("edge", [(x + 8, middle, head, middle)], width=1.5)
            drawn.lines("edge", [(head, middle, head - 7, middle + d) for d in (-5, 5)], width=1.5)
            words = (place.comes_in, "for each multiply-add") if place.comes_in else ("", "not traced")
            drawn.text(x + ARROW / 2, middle - 9, words[0], size=12, anchor="middle")
            drawn.text(x + ARROW / 2, middle + 19, words[1], size=12, kind="quiet", anchor="middle")
            x += ARROW
        drawn.rectangle("matrix", x, y, width, 66, round=6)
        drawn.text(x + 12, y + 26, place.title, weight="bold")
        drawn.text(x + 12, y + 48, place.holds, size=12)
        x += width
