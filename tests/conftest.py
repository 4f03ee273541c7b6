"""Fixtures for all tests. The real parts start in a moment, so they are used: a real Valkey, never a mock."""

from __future__ import annotations

import fcntl
import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from kernels.model.numerics import DTYPE_NAMES

with suppress(ImportError):  # a GPU machine may have no hypothesis
    from hypothesis import settings

    settings.register_profile("loaded machine", deadline=None)  # an example may wait for its turn
    settings.load_profile("loaded machine")

SERVICES = "tests/integration/"
WORKERS = tuple(f"tests/integration/{folder}/" for folder in ("faults", "fleet", "versions", "worker"))
STORES = tuple(f"tests/integration/{folder}/" for folder in ("ledger", "matrices", "queues", "redis"))
BROWSER = "tests/browser/"
CHAOS = "tests/chaos/"
PROGRAMS = "tests/integration/local/"
EMULATED = "tests/emulation/"
ON_GPU = "tests/gpu/"


@pytest.hookimpl(optionalhook=True)  # a GPU machine may have no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that start services of their own take turns, as do those of workers and faults, those of stores, those that
    share a browser, those of whole programs, and those that share an emulator: no group takes much longer than its
    share of the whole. The long test under faults mostly waits, so it comes in a group with the small ones beside it
    alone: with others in front of it, it would be the last to end. Tests on a GPU go by function, and by element type
    where that comes last: most wait for compilers and for what is true. All others go by file."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(BROWSER):
                return "browser"
            if nodeid.startswith(CHAOS):
                return "chaos"
            if nodeid.startswith(PROGRAMS):
                return "programs"
            if nodeid.startswith(EMULATED):
                return "emulator"
            if nodeid.startswith(STORES):
                return "stores"
            if nodeid.startswith(WORKERS):
                return "workers"
            if nodeid.startswith(ON_GPU):
                function, _, parameters = nodeid.partition("[")
                last = parameters.rstrip("]").rpartition("-")[2]
                return f"{function}[{last}]" if last in DTYPE_NAMES else function
            return "services" if nodeid.startswith(SERVICES) else nodeid.partition("::")[0]

    return Together(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes is no garbage, and is not searched for any: that would take a fifth of the time."""
    gc.disable()
    try:
        with first_alone():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def first_alone() -> Iterator[None]:
    """The first of several processes to come here goes through alone, and the others together when it is done. In a
    fresh checkout it writes bytecode, and Hypothesis's constants of each file: all at once, each would make them."""
    with open(__file__) as own_file:
        try:
            fcntl.flock(own_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(own_file, fcntl.LOCK_SH)
            fcntl.flock(own_file, fcntl.LOCK_UN)
        yield


@pytest.fixture(scope="module", autouse=True)
def own_garbage() -> Iterator[None]:
    """What a file leaves open fails that file: found later, by chance, it would fail a test of another. All that stays
    is frozen, so that each search is of one file's objects alone, which takes some milliseconds."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedServer]:
    """One server for the whole session; tests keep apart by `key_prefix`."""
    with TemporaryDirectory() as directory:
        server = EmbeddedServer(Path(directory))
        server.start()
        yield server
        server.stop()


@pytest.fixture
def key_prefix() -> str:
    """A prefix for Redis keys that no other test uses."""
    return f"{new_id('test')}:"
