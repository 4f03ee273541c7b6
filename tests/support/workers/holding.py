"""Where products in tiles stop for a test, and what lets them go on; `held_tiles` has them stop."""

from __future__ import annotations

from pathlib import Path

HELD_FROM = 2  # tiles that are kept before


def go_on_file(store_dir: Path) -> Path:
    return store_dir.parent / "go_on"
