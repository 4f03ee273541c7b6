"""What the emulation's tests share: programs are compiled, and run, on all cores at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from tests.emulation.programs import Emulator, digest_of_sources

FOLDER = "emulated"
LONGEST_RUN_S = 24 * 3600  # of another run of tests, which may still use what it compiled


@pytest.fixture(scope="session")
def pool() -> Iterator[Executor]:
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield threads
        threads.shutdown(cancel_futures=True)  # after a test run that ended early


@pytest.fixture(scope="session")
def emulator(pool: Executor, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    """It keeps what it compiles for the next run of tests."""
    if not pytestconfig.pluginmanager.has_plugin("cacheprovider"):
        return Emulator(tmp_path_factory.mktemp(FOLDER), pool)
    directory = pytestconfig.cache.mkdir(f"{FOLDER}-{digest_of_sources()}")
    os.utime(directory)
    remove_outdated(directory)
    return Emulator(directory, pool)


def remove_outdated(directory: Path) -> None:
    """What was compiled from other sources."""
    for other in directory.parent.glob(f"{FOLDER}-*"):
        if other != directory and other.stat().st_mtime < time.time() - LONGEST_RUN_S:
            rmtree(other)
