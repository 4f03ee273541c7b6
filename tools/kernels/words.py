"""The words of a kernel's memory-access picture: captions, and a description for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernels.model.numerics import DTYPES
from tools.kernels.access import Access, Lane
from tools.kernels.model import Model
from tools.kernels.trace import SECTOR_BYTES

FRAGMENT = 16
Cells = Iterable[tuple[int, int, int, int]]


def step_in_words(model: Model, access: Access) -> tuple[int, int, str, tuple[str, ...]]:
    """Rows and columns of what is computed together, what that is, and its figures."""
    if access.fragments:
        rows, columns = (len(_extent(access.c_of_warp, axis)) // FRAGMENT for axis in (0, 1))
        words = (f"{rows} fragments of A,", f"{columns} of B,", f"{rows * columns} products of", "16 × 16 × 16")
        return rows, columns, "A step of 16 of k in a warp", words
    rows, columns = (len(_extent(access.c_of_thread, axis)) for axis in (0, 1))
    sums = rows * columns
    size = DTYPES[model.dtype].accumulator_bytes if model.shared_bytes else DTYPES[model.dtype].itemsize
    reads = (access.bytes_read if model.shared_bytes else access.bytes_loaded) * sums / size
    where = "shared memory" if model.shared_bytes else "global memory"
    done = f"{sums} multiply-adds" if sums > 1 else "1 multiply-add"
    return rows, columns, "A step of k in a thread", (f"{reads:.0f} elements read", f"from {where},", done)


def _extent(rectangles: Cells, axis: int) -> set[int]:
    """Rows (0) or columns (1) that they lie in."""
    return {at for each in rectangles for at in range(each[axis], each[axis] + each[axis + 2])}


def load_in_words(lanes: Sequence[Lane], itemsize: int) -> tuple[str, str]:
    """What the lanes ask for, and what that fetches."""
    sectors = {
        (row, at // SECTOR_BYTES)
        for _, row, column, count in lanes
        for at in range(column * itemsize, (column + count) * itemsize, itemsize)
    }
    asked = {(row, column, count) for _, row, column, count in lanes}
    used = sum(count for _, _, count in asked) * itemsize / (len(sectors) * SECTOR_BYTES)
    width = lanes[0][3] * itemsize
    same = ", all the same" if len(asked) == 1 else ""
    fetched = f"{len(sectors)} sectors" if len(sectors) > 1 else "1 sector"
    return (
        f"{len(lanes)} lanes ask for {width} bytes each{same}:",
        f"{fetched} of {SECTOR_BYTES} bytes, {used * 100:.3g} % of it used",
    )


@dataclass(frozen=True, slots=True)
class Place:
    """One that operands pass on their way."""

    title: str
    holds: str
    comes_in: str = ""  # for each multiply-add


def flow_in_words(model: Model, access: Access | None) -> list[Place]:
    """Of what was not traced it tells no more than follows from its tiles."""
    size, (rows, columns) = DTYPES[model.dtype].itemsize, model.tile
    step = (rows + columns) * model.depth * size
    sums = model.kernel.accumulators(model.config)
    registers = f"{sums} sum{'s' if sums > 1 else ''}" + (f"; {model.registers} in all" if model.registers else "")
    memory = Place("Device memory, L2", f"{_bytes(step)} for {steps(model.depth)}")
    fetched = f"{access.bytes_fetched if access else model.traffic:.3g} bytes"
    if not model.shared_bytes:
        return [memory, Place("Registers of a thread", registers, fetched)]
    shared = Place("Shared memory", f"{_bytes(model.shared_bytes)} a block", fetched)
    read = f"{access.bytes_read:.3g} bytes" if access else ""
    return [memory, shared, Place("Registers of a thread", registers, read)]


def steps(depth: int) -> str:
    """Such as `8 steps of k`."""
    return f"{depth} steps of k" if depth > 1 else "a step of k"


def _bytes(count: int) -> str:
    return f"{count / 1024:.3g} KiB" if count >= 1024 else f"{count} bytes"


def described(model: Model, access: Access | None) -> list[str]:
    """The picture in sentences, for readers who cannot see it."""
    rows, columns = model.tile
    share = f" {model.splits} blocks share them, each with a part of k." if model.splits > 1 else ""
    sentences = [
        f"A block of {model.threads} threads computes {rows} × {columns} elements of C, "
        f"{steps(model.depth)} at a time.{share}",
        *(_traced(model, access) if access else ()),
    ]
    for place in flow_in_words(model, access):
        moved = f"; {place.comes_in} come in for each multiply-add" if place.comes_in else ""
        sentences.append(f"{place.title}: {place.holds}{moved}.")
    return sentences


def _traced(model: Model, access: Access) -> Iterator[str]:
    """What threads and warps touch."""
    _, _, title, words = step_in_words(model, access)
    thread, warp = _elements(access.c_of_thread), _elements(access.c_of_warp)
    yield f"Its first thread writes {thread} of them, its first warp {warp}."
    yield f"{title}: {' '.join(words)}."
    for operand, lanes in (("A", access.lanes_a), ("B", access.lanes_b)):
        load = " ".join(load_in_words(lanes, DTYPES[model.dtype].itemsize))
        yield f"The warp's first load from {operand}: {load}."


def _elements(rectangles: Cells) -> int:
    return sum(rows * columns for _, _, rows, columns in rectangles)
