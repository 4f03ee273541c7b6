"""Fixtures for tests of versions side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.support.ledger.both_ways import Sides, both_ways


@pytest.fixture
def sides(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    with both_ways(valkey, key_prefix, tmp_path, monkeypatch) as both:
        yield both
