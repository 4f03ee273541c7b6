"""Sizes of tiles of the Hopper kernels on tensor cores, and the configs that come of them."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.entries.hopper.cut import LARGEST_SHARED_BYTES
from kernels.entries.hopper.waves import BLOCK_M, ROW_BYTES
from kernels.model.edge import EDGE
from kernels.model.entry.config import Constraint, Parameter, TileConfig
from kernels.model.groups import tiles
from kernels.model.kernel import Default
from kernels.model.numerics import DTYPES, DTypeName

BOX = 64  # rows of a box, of ROW_BYTES each
BOX_BYTES = BOX * ROW_BYTES
OUT_ROWS, OUT_BYTES = 16, 16 * ROW_BYTES  # of C: what a warp writes at once
OUT_BOXES, BARRIER_BYTES = 2, 8  # boxes of each warp
WIDTHS = ((256, 4, 2), (192, 4, 2), (128, 6, 2), (64, 6, 1))  # columns, stages and blocks of a cluster
# And rows, of all but 8-bit floats: the more sizes of tiles, the better one of them fills its last wave.
SIZES = (
    *((BLOCK_M, *width) for width in ((256, 4, 2), (224, 4, 2), (192, 5, 2), (160, 5, 2), (128, 6, 2), (64, 6, 1))),
    *((192, *width) for width in ((192, 4, 2), (176, 4, 2))),
)
SIZES_OF_HALVES = (*SIZES, (192, 144, 4, 2), (192, 128, 5, 2))
# Of products with groups: blocks of a cluster have rows of one group, so where groups are small, each is alone.
GROUP_CONFIGS: tuple[Mapping[str, int], ...] = tuple(
    {"block_m": BLOCK_M, "block_n": n, "stages": stages, "cluster": blocks}
    for n, stages, _ in WIDTHS
    for blocks in (1, 2)
)


def shared_bytes(config: TileConfig, dtype: DTypeName) -> int:
    """Stages with two barriers each, and boxes of C on their way out. A warp may do with one, but of 8-bit floats."""
    rows, columns = config["block_m"], config["block_n"]
    ring = config["stages"] * (tiles(rows, BOX) + tiles(columns, BOX)) * BOX_BYTES
    ring += config["stages"] * 2 * BARRIER_BYTES
    out = rows // OUT_ROWS * OUT_BYTES
    fits = ring + OUT_BOXES * out <= LARGEST_SHARED_BYTES
    return ring + (OUT_BOXES if fits or dtype == "float8_e4m3" else 1) * out


def parameters(dtype: DTypeName) -> tuple[Parameter, ...]:
    return (
        Parameter("block_m", _values(dtype, "block_m"), BLOCK_M, "rows of the product per thread block"),
        Parameter("block_n", _values(dtype, "block_n"), 256, "columns of the product per thread block"),
        Parameter("stages", (3, 4, 5, 6), 4, "tiles in shared memory: one multiplied, the others in flight"),
        Parameter("cluster", (1, 2), 2, "vertically adjacent thread blocks that share tiles of B"),
    )


def constraints(dtype: DTypeName) -> tuple[Constraint, ...]:
    return (
        Constraint(
            lambda c: _has_size(c, dtype),
            f"block_m × block_n = {{block_m}} × {{block_n}} is none of: {_sizes_as_text(dtype)}.",
        ),
        Constraint(
            lambda c: shared_bytes(c, dtype) <= LARGEST_SHARED_BYTES,
            "stages × block_n = {stages} × {block_n} must fit in shared memory.",
        ),
    )


def tile_sizes(dtype: DTypeName) -> tuple[Mapping[str, int], ...]:
    """A config for each size of a tile, as many stages as there is room for."""
    if dtype == "float8_e4m3":
        sizes = tuple((BLOCK_M, *width) for width in WIDTHS)
    else:
        sizes = SIZES_OF_HALVES if DTYPES[dtype].itemsize == 2 else SIZES
    return tuple({"block_m": m, "block_n": n, "stages": stages, "cluster": blocks} for m, n, stages, blocks in sizes)


def defaults(dtype: DTypeName, own: tuple[Parameter, ...], *, has_triangle: bool) -> tuple[Default, ...]:
    """Every size, with and without an edge if the kernel has that parameter; of triangles one more, whose tiles are
    finer, for fuller waves."""
    edges: list[TileConfig] = [{"edge": value} for value in EDGE.values] if EDGE in own else [{}]
    usual = tuple(Default(config={**size, **edge}) for size in tile_sizes(dtype) for edge in edges)
    finer: TileConfig = {"block_m": BLOCK_M, "block_n": 128, "stages": 6, "cluster": 1, **edges[0]}
    return (*usual, Default(config=finer, symmetric=True)) if has_triangle else usual


def _has_size(config: TileConfig, dtype: DTypeName) -> bool:
    asked = config["block_m"], config["block_n"]
    return any(asked == (size["block_m"], size["block_n"]) for size in tile_sizes(dtype))


def _sizes_as_text(dtype: DTypeName) -> str:
    sizes = sorted((size["block_m"], size["block_n"]) for size in tile_sizes(dtype))
    return ", ".join(f"{rows} × {columns}" for rows, columns in sizes)


def _values(dtype: DTypeName, name: str) -> tuple[int, ...]:
    """Of a parameter, in some size of a tile."""
    return tuple(sorted({size[name] for size in tile_sizes(dtype)}))
