"""What the emulation's tests share: programs are compiled, and run, on all cores at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from shutil import rmtree

import pytest

from tests.emulation.programs import Emulator


@pytest.fixture(scope="session")
def pool() -> Iterator[Executor]:
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield threads
        threads.shutdown(cancel_futures=True)  # after a test run that ended early


@pytest.fixture(scope="session")
def emulator(pool: Executor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    directory = tmp_path_factory.mktemp("emulated")
    yield Emulator(directory, pool)
    rmtree(directory)
