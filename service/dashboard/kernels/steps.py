"""Drawings of how a kernel computes a tile, step by step. They need no script; with one they can be stepped through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from kernels.families import FAMILY_OF
from kernels.model.architectures import H200
from kernels.model.kernel import CudaKernel, Kernel
from kernels.selection.defaults import default_config
from service.dashboard.charts.svg import Drawing

SIDE, LEFT, TOP = 96.0, 150.0, 130.0  # side of a matrix; position of C
WIDTH, HEIGHT = 520.0, 260.0
PLACES = ("global memory", "shared memory", "registers", "multiply-add")
ALL = GLOBAL, SHARED, REGISTERS, MULTIPLY_ADD = tuple(range(len(PLACES)))
PLACE_X, PLACE_W, PLACE_H = 320.0, 170.0, 36.0


@dataclass(frozen=True, slots=True)
class Step:
    """One drawing. Sizes and positions are shares of a matrix's side."""

    words: str
    k: tuple[float, float] | None = None  # the part of k that is processed
    path: tuple[int, ...] = ()  # the memories that the data pass through
    tile: float = 0.5  # side of the tile of C
    inner: float = 0.0  # side of a thread's tile within it; 0: not drawn
    copy_k: tuple[float, float] | None = None  # the part of k that is copied at the same time


@dataclass(frozen=True, slots=True)
class Drawn:
    words: str
    picture: Markup


def steps_of(kernel: Kernel) -> tuple[Drawn, ...]:
    """The steps of a kernel; none for a library, whose code is not known."""
    if not isinstance(kernel, CudaKernel):
        return ()
    config = default_config(kernel, H200.traits)
    steps = list(_steps(kernel, config))
    return tuple(Drawn(step.words, _drawn(step, f"Step {at} of {len(steps)}")) for at, step in enumerate(steps, 1))


def _steps(kernel: CudaKernel, config: Mapping[str, int]) -> Iterator[Step]:
    name = kernel.name
    if "thread_m" in config or "warp_m" in config or name in ("pipelined", "warp_tiled", "split_k", "cluster_split_k"):
        yield from _register_tiles(name, config)
    elif "tile" in config or name.startswith("shared"):
        yield from _shared_tiles(name, config)
    elif FAMILY_OF[name].name in ("hopper", "tensor"):
        yield from _tensor_tiles(name, config)
    elif name == "strassen":
        yield from _halves()
    else:
        yield from _elements(name)


def _elements(name: str) -> Iterator[Step]:
    step = partial(Step, tile=0.08)
    several = name == "coarsened"
    mine = "a few elements" if several else "one element"
    yield step(f"A thread owns {mine} of C. Its neighbours in the warp own the ones beside it.")
    yield step(
        "For each step of k it reads an element of A and one of B, straight from global memory.",
        k=(0, 0.1),
        path=(GLOBAL, REGISTERS),
    )
    if name == "naive_uncoalesced":
        why = "Threads of a warp lie down a column here, so their reads are rows apart: a transaction for each."
    elif several:
        why = "An element of B that was read is used for each of its elements of C: fewer reads per multiply-add."
    else:
        why = "Threads of a warp lie along a row, so their reads of B are neighbours: one transaction serves the warp."
    yield step(why, k=(0.1, 0.2), path=(GLOBAL, REGISTERS, MULTIPLY_ADD))
    yield step(
        "And so on along k: each element of A and B is read anew by every thread that needs it.",
        k=(0, 1),
        path=(GLOBAL, REGISTERS, MULTIPLY_ADD),
    )
    yield step("The sum, kept in a register all the time, is written to C once.", path=(REGISTERS, GLOBAL))


def _shared_tiles(name: str, config: Mapping[str, int]) -> Iterator[Step]:
    step = partial(Step, tile=0.34)
    side = config.get("tile", 32)
    yield step(f"A block of threads owns a tile of C, {side}×{side} elements: a thread for each.")
    yield step(
        f"Together they copy a tile of A and a tile of B, {side} steps of k deep, into shared memory: each element of "
        "both is read from global memory once for the whole block.",
        k=(0, 0.34),
        path=(GLOBAL, SHARED),
    )
    yield step("They wait for each other: what a thread multiplies was copied by others.", k=(0, 0.34), path=(SHARED,))
    yield step(
        "Each thread runs along its row and column in shared memory.",
        k=(0, 0.34),
        path=(SHARED, REGISTERS, MULTIPLY_ADD),
        inner=0.08,
    )
    if name == "shared_tiled_prefetch":
        yield step(
            "Meanwhile the next tiles are on their way from global memory into registers.",
            k=(0, 0.34),
            path=(GLOBAL, REGISTERS),
            copy_k=(0.34, 0.68),
        )
    yield step("They wait again, and continue with the next tiles along k.", k=(0.34, 0.68), path=ALL, inner=0.08)
    yield step("After the last tile each thread writes its sum to C.", path=(REGISTERS, GLOBAL), inner=0.08)


def _register_tiles(name: str, config: Mapping[str, int]) -> Iterator[Step]:
    m, n, k = (config.get(f"block_{axis}", 0) for axis in "mnk")
    tile = f"{m}×{n}" if m and n else "a large tile"
    rows, columns = config.get("thread_m", 8), config.get("thread_n", 1 if name == "register_tiled_rows" else 8)
    yield Step(f"A block owns a tile of C of {tile} elements. A thread owns {rows}×{columns} of them.", inner=0.12)
    if name in ("split_k", "cluster_split_k"):
        yield Step(
            "Several blocks share a tile, each with a part of k: or a small product would leave the GPU half empty.",
            k=(0.5, 1),
        )
    depth = f"{k} steps of k" if k else "some steps of k"
    how = "in loads of 16 bytes" if name not in ("register_tiled", "register_tiled_rows") else "element by element"
    yield Step(f"The block copies {depth} of A and B into shared memory, {how}.", k=(0, 0.2), path=(GLOBAL, SHARED))
    if name == "pipelined":
        yield Step(
            "Nobody waits for a copy: cp.async puts several stages on their way, and the oldest is multiplied.",
            k=(0, 0.2),
            path=(GLOBAL, SHARED),
            copy_k=(0.2, 0.6),
        )
    yield Step(
        f"For each step of k a thread loads {rows} elements of A and {columns} of B into registers …",
        k=(0, 0.2),
        path=(SHARED, REGISTERS),
        inner=0.12,
    )
    yield from _in_registers(name, rows, columns)


def _in_registers(name: str, rows: int, columns: int) -> Iterator[Step]:
    """The steps from a tile in shared memory to a tile of C."""
    count = rows * columns
    yield Step(
        f"… and makes {count} multiply-adds of these {rows + columns} loads: the more, the less shared memory counts.",
        k=(0, 0.2),
        path=(REGISTERS, MULTIPLY_ADD),
        inner=0.12,
    )
    if name in ("warp_tiled", "pipelined"):
        yield Step(
            "Threads of a warp own tiles side by side, so one load from shared memory serves several of them.",
            k=(0, 0.2),
            path=(SHARED, REGISTERS, MULTIPLY_ADD),
            inner=0.25,
        )
    yield Step(
        "The same for the next tiles along k. The sums never leave the registers.", k=(0.2, 0.4), path=ALL, inner=0.12
    )
    last = {
        "split_k": "The parts of k are added in a second pass, in a fixed order.",
        "cluster_split_k": "The blocks of a cluster add their parts through each other's shared memory.",
    }.get(name, "After the last, each thread writes its tile of C.")
    yield Step(last, path=(REGISTERS, GLOBAL), inner=0.12)


def _tensor_tiles(name: str, config: Mapping[str, int]) -> Iterator[Step]:
    m, n = config.get("block_m", 128), config.get("block_n", 128)
    yield Step(f"A block owns a tile of C, {m}×{n} elements.")
    if FAMILY_OF[name].name == "hopper":
        yield from _through_ring(name)
        return
    if name == "fp32_emulated":
        yield Step("A and B are first cut into integer digits, row by row and column by column.", path=(GLOBAL,))
    if name == "fp64_emulated":
        yield Step("A and B are first turned into integers, and these into remainders of 14 moduli.", path=(GLOBAL,))
    yield Step("Tiles of A and B come into shared memory.", k=(0, 0.25), path=(GLOBAL, SHARED))
    yield Step(
        "A warp loads fragments: which thread holds which element is the instruction's own choice.",
        k=(0, 0.25),
        path=(SHARED, REGISTERS),
        inner=0.2,
    )
    yield Step(
        "One instruction multiplies whole fragments: hundreds of multiply-adds.",
        k=(0, 0.25),
        path=(REGISTERS, MULTIPLY_ADD),
        inner=0.2,
    )
    yield Step("The next tiles along k, into the same sums.", k=(0.25, 0.5), path=ALL, inner=0.2)
    written = "The sums are written to C."
    if name == "fp64_emulated":
        written = (
            "Remainders of the sums are written; once those of all moduli are there, C is reconstructed from them."
        )
    yield Step(written, path=(REGISTERS, GLOBAL), inner=0.2)


def _through_ring(name: str) -> Iterator[Step]:
    """The steps of a block in which one warp copies and the others multiply."""
    yield Step(
        "One warp only copies: a single instruction (TMA) brings a whole tile into a ring in shared memory.",
        k=(0, 0.25),
        path=(GLOBAL, SHARED),
        copy_k=(0.25, 0.5),
    )
    yield Step(
        "A barrier in shared memory counts the bytes, and wakes those that multiply.", k=(0, 0.25), path=(SHARED,)
    )
    unit = "CUDA cores" if name == "hopper_fp32" else "tensor cores"
    yield Step(
        f"The others multiply the oldest stage on {unit}"
        + (", four warps at a time, straight from shared memory." if unit == "tensor cores" else "."),
        k=(0, 0.25),
        path=(SHARED, MULTIPLY_ADD) if unit == "tensor cores" else (SHARED, REGISTERS, MULTIPLY_ADD),
    )
    yield Step(
        "A used stage is handed back to the copying warp: the ring moves on along k.",
        k=(0.25, 0.5),
        path=(GLOBAL, SHARED, MULTIPLY_ADD),
        copy_k=(0.5, 0.75),
    )
    yield Step(
        "The tile of C leaves through shared memory while the block begins its next tile.",
        path=(REGISTERS, SHARED, GLOBAL),
    )


def _halves() -> Iterator[Step]:
    yield Step("A, B and C are cut into quarters.", k=(0, 0.5))
    yield Step(
        "Sums and differences of quarters are formed once: cheap, as they cost n² and not n³.",
        k=(0, 0.5),
        path=(GLOBAL, REGISTERS, GLOBAL),
    )
    yield Step(
        "Seven products of such sums are made, each by a kernel like `pipelined`; eight would be usual.",
        k=(0, 0.5),
        path=ALL,
    )
    yield Step(
        "Sums of the seven are the quarters of C. An eighth of the work is saved, at the cost of some accuracy.",
        path=(REGISTERS, GLOBAL),
    )


def _drawn(step: Step, title: str) -> Markup:
    picture = Drawing(WIDTH, HEIGHT, f"{title}: {step.words}")
    _matrices(picture, step)
    _places(picture, step)
    return picture.svg()


def _matrices(picture: Drawing, step: Step) -> None:
    """Draws A left of C and B above it, so that a row of A and a column of B meet in an element of C."""
    at, size = 0.3 * SIDE, max(4.0, step.tile * SIDE)
    a_x, b_y = LEFT - SIDE - 14, TOP - SIDE - 14
    for x, y, name in ((a_x, TOP, "A"), (LEFT, b_y, "B"), (LEFT, TOP, "C")):
        picture.rectangle("box", x, y, SIDE, SIDE)
        picture.text(x + 5, y + 14, name, kind="faint")
    for span, kind in ((step.copy_k, "coming"), (step.k, "piece c0")):
        if span is not None:
            begin, length = span[0] * SIDE, (span[1] - span[0]) * SIDE
            picture.rectangle(kind, a_x + begin, TOP + at, length, size)
            picture.rectangle(kind, LEFT + at, b_y + begin, size, length)
    picture.rectangle("piece c1", LEFT + at, TOP + at, size, size, opacity=0.55)
    if step.inner:
        inner = step.inner * SIDE
        picture.rectangle("piece c1", LEFT + at + inner, TOP + at + inner, inner, inner)


def _places(picture: Drawing, step: Step) -> None:
    """Draws the memories from far to near, and the path of the data."""
    middles = [14 + at * 62 + PLACE_H / 2 for at in range(len(PLACES))]
    for at, (name, y) in enumerate(zip(PLACES, middles, strict=True)):
        picture.rectangle("box busy" if at in step.path else "box", PLACE_X, y - PLACE_H / 2, PLACE_W, PLACE_H)
        picture.text(PLACE_X + PLACE_W / 2, y + 4, name, anchor="middle", kind="" if at in step.path else "faint")
    for lane, (begin, end) in enumerate(zip(step.path, step.path[1:], strict=False)):
        passes_by = abs(end - begin) > 1
        x = PLACE_X + PLACE_W - 16 if passes_by else PLACE_X + PLACE_W / 2 + (lane - 1) * 18
        sign = 1 if end > begin else -1
        start, stop = middles[begin] + sign * PLACE_H / 2, middles[end] - sign * PLACE_H / 2
        picture.line("way", [(x, start), (x, stop), (x - 5, stop - sign * 7), (x, stop), (x + 5, stop - sign * 7)])
