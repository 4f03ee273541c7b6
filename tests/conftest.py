"""Fixtures for all tests. The real parts start in a moment, so they are used: a real Valkey, never a mock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jobs.embedded import EmbeddedServer
from jobs.models import new_id


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
