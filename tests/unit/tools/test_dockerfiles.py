"""The Dockerfiles as hadolint sees them; docker/test-images builds and runs them."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

DOCKERFILES = sorted((Path(__file__).parents[3] / "docker").glob("*.Dockerfile"))


def lint(text: str) -> str:
    """hadolint's findings, one a line."""
    tool = Path(sysconfig.get_path("scripts")) / "hadolint"
    return subprocess.run([str(tool), "-"], input=text, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(path: Path) -> None:
    assert lint(path.read_text()) == ""


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_would_find_an_unpinned_package(path: Path) -> None:
    assert "DL3008" in lint(path.read_text().replace("# hadolint ignore=DL3008\n", ""))


def test_there_is_one_for_each_process() -> None:
    assert [path.stem for path in DOCKERFILES] == ["service", "worker"]
