"""What others wrote and ships with the pages: the files are those that are pinned, each with its licence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

VENDOR = Path(__file__).parents[3] / "service" / "dashboard" / "static" / "vendor"
PINNED = json.loads((VENDOR / "vendored.json").read_text())


def test_every_file_is_pinned_and_nothing_else_is_there() -> None:
    found = {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.parent != VENDOR
    }
    pinned = {
        f"{folder}/{name}": file["sha256"]
        for folder, package in PINNED.items()
        for name, file in package["files"].items()
    }
    assert found == pinned


def test_every_package_has_its_licence_and_version() -> None:
    for folder, package in PINNED.items():
        assert package["licence"] in (VENDOR / folder / "LICENSE").read_text()
        assert any(f"(v{package['version']})" in path.read_text() for path in (VENDOR / folder).glob("*.js"))
