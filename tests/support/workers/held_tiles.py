"""The worker's tasks, whose products in tiles stop before the third tile is kept, until a file says that they may."""

from __future__ import annotations

import time

from jobs.settings import get_settings
from tests.support.workers.holding import HELD_FROM, go_on_file
from worker.device.tiles import CheckedTile
from worker.process import tasks
from worker.product.tile_journal import TileJournal

__all__ = ["tasks"]

LOOK_EVERY_S = 0.01

_add = TileJournal.add


def held(journal: TileJournal, checked: CheckedTile, **after: float) -> None:
    while len(journal.records) >= HELD_FROM and not go_on_file(get_settings().store_dir).exists():
        journal._check_ownership()
        time.sleep(LOOK_EVERY_S)
    _add(journal, checked, **after)


setattr(TileJournal, "add", held)  # noqa: B010  # of the class
