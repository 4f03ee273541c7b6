"""Which names of matrices, jobs and uploads the processes of a service intern: see `path_of` in jobs/disk.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.interned.sitecustomize import NOTED_IN


@contextmanager
def noted_in(file: Path) -> Iterator[None]:
    """Python processes that are started meanwhile write those names there, and so do their children."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NOTED_IN, str(file))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        yield


def noted(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
