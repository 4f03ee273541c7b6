"""Fixtures for all tests. The real parts start in a moment, so they are used: a real Valkey, never a mock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jobs.embedded import EmbeddedServer
from jobs.models import new_id

SERVICES = tuple(Path(__file__).parent / name for name in ("browser", "chaos", "integration"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that start services take turns, as they would starve each other; all others run beside them, by file."""
    if config.pluginmanager.hasplugin("xdist"):  # a GPU machine may have none
        for item in items:
            has_services = any(item.path.is_relative_to(directory) for directory in SERVICES)
            item.add_marker(pytest.mark.xdist_group("services" if has_services else item.path.name))


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
