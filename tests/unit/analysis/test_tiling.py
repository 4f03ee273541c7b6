"""Tiles and waves by the catalogue's launch arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import tiling as tiling_module
from analysis.measurement import Device
from analysis.tiling import Tile, Tiling, tile_of, tiling
from kernels.catalog import BY_NAME, CATALOG
from kernels.entries.fp64_emulated import FEWEST
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName
from tests.support.recorded import h200, labelled, made, report

CUDA = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel)]


def cut(n: int, kernel: str, config: dict[str, int], **fields: object) -> Tiling:
    found = tiling(made(n, kernel=kernel, config=config, **fields))
    assert found is not None
    return found


@pytest.mark.parametrize("kernel", CUDA, ids=lambda kernel: kernel.name)
def test_the_tile_of_every_kernel(kernel: CudaKernel) -> None:
    """Of the default config: the names of its parameters say the same, where they do."""
    config, dtype = kernel.resolve_config(), kernel.dtypes[0]
    tile = tile_of(kernel, config, dtype)
    assert tile is not None and tile.threads
    side = config.get("tile", 0)
    sides = config.get("block_m", side), config.get("block_n", side * config.get("thread_n", 1))
    turned = kernel.name in ("hopper_tf32", "hopper_int8")  # they compute Cᵀ where B lies across k
    assert (tile.rows, tile.columns) == (sides[::-1] if turned else sides)
    moduli = FEWEST if kernel.name == "fp64_emulated" else 1  # each a piece of work of its own
    assert tile.splits == config.get("cluster" if kernel.name == "cluster_split_k" else "splits", moduli)
    assert tile.shared is (kernel.shared_bytes(config, dtype) > 0)


def test_report_002s_grid() -> None:
    points = {p.n: tiling(p) for p in labelled(report("002"), "bx=32, by=8, tile 128×128×64").points}
    grids = {n: (found.tiles, found.down, found.partial) for n, found in points.items() if found}
    assert (grids[4096], grids[4097]) == ((1024, 32, 0), (1089, 33, 65))


def test_waves_of_the_recorded_run() -> None:
    found = {one.n: tiling(one) for one in h200() if one.kernel == "pipelined"}
    waves = {n: (one.blocks, one.resident, one.waves, one.passes) for n, one in found.items() if one and n > 4000}
    assert waves == {
        4096: (512, 1, 512 / 132, 4),
        4097: (561, 1, 561 / 132, 5),
        8192: (2048, 1, 2048 / 132, 16),
    }


def test_a_parameter_left_out_counts_where_the_tile_depends_on_it() -> None:
    assert cut(1024, "register_tiled", {"block_m": 64, "block_n": 64}).tile.threads is None  # block_k left out as well
    assert cut(1024, "register_tiled", {"block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4}).tile.threads == 256
    assert tiling(made(kernel="register_tiled", config={"block_m": 64})) is None
    assert tiling(made(kernel="shared_tiled", config={})) is None


def test_libraries_and_unknown_kernels_have_no_tiles() -> None:
    assert tiling(made(kernel="cublas")) is None
    assert tiling(made(kernel=None)) is None


@pytest.mark.parametrize(
    ("fields", "resident"),
    [
        ({"resident_blocks": 3}, 3),
        ({"occupancy": 0.5, "device": Device(threads_per_multiprocessor=1024)}, 2),
        ({"occupancy": 0.5, "device": Device(compute_capability=(9, 0))}, 4),
        ({"registers": 128, "shared_bytes": 8192, "device": Device(compute_capability=(9, 0))}, 2),
        ({"registers": 128, "device": Device(compute_capability=(9, 0))}, None),
        ({"occupancy": 0.5}, None),
    ],
)
def test_how_many_blocks_find_room(fields: dict[str, object], resident: int | None) -> None:
    assert cut(1024, "shared_tiled", {"tile": 16}, **fields).resident == resident


def test_without_room_known_a_multiprocessor_runs_one_block_at_a_time() -> None:
    found = cut(1025, "register_tiled", {"block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4})
    assert (found.blocks, found.resident, found.waves, found.passes) == (289, None, 289 / 40, 8)
    nowhere = cut(1025, "shared_tiled", {"tile": 16}, device=Device())
    assert (nowhere.waves, nowhere.passes, nowhere.filled) == (None, None, None)


@pytest.mark.parametrize("config", [{"block_m": 1 << 24}, {"warp_n": 1 << 60}, {"block_m": 0}, {"tile": 16}])
def test_a_config_that_the_kernel_does_not_take_has_no_tiles(config: dict[str, int]) -> None:
    """Imported results, and those of another version, may have any."""
    assert tiling(made(kernel="warp_tiled", config=config, occupancy=0.5)) is None


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from(BY_NAME["shared_tiled"].parameters[0].values))
def test_tiles_cover_the_product(m: int, n: int, tile: int) -> None:
    found = tiling(made(m=m, n=n, kernel="shared_tiled", config={"tile": tile}))
    assert found is not None
    covered = found.tiles * tile * tile
    assert covered >= m * n and found.useful == pytest.approx(m * n / covered)
    assert (found.partial == 0) is (found.useful == 1)
    assert found.waves is not None and found.passes is not None and found.filled is not None
    assert found.passes - 1 < found.waves <= found.passes and 0 < found.filled <= 1


def test_the_tile_of_a_config_is_determined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of thousands of sizes asks for it thousands of times."""
    asked: list[str] = []

    def counted(kernel: CudaKernel, config: TileConfig, dtype: DTypeName) -> Tile | None:
        asked.append(kernel.name)
        return tile_of(kernel, config, dtype)

    monkeypatch.setattr(tiling_module, "tile_of", counted)
    tiling_module._known_tile.cache_clear()
    for n in range(64, 128):
        cut(n, "shared_tiled", {"tile": 16})
    assert asked == ["shared_tiled"]
