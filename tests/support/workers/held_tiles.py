"""The worker's tasks, whose products in tiles stop before the third tile until a file says that they may go on."""

from __future__ import annotations

import time
from pathlib import Path

from jobs.settings import get_settings
from kernels.tiles.plan import Tile
from worker.cpu.tiles import CpuTiledProduct
from worker.device.tiles import CheckedTile
from worker.process import tasks

__all__ = ["tasks"]

HELD_FROM = 2
LOOK_EVERY_S = 0.01

_computed = CpuTiledProduct._computed


def go_on_file(store_dir: Path) -> Path:
    return store_dir.parent / "go_on"


def held(product: CpuTiledProduct, tile: Tile) -> CheckedTile:
    while tile.number >= HELD_FROM and not go_on_file(get_settings().store_dir).exists():
        product._task.wanted()
        time.sleep(LOOK_EVERY_S)
    return _computed(product, tile)


setattr(CpuTiledProduct, "_computed", held)  # noqa: B010  # of the class
