"""A large matrix on its way into the store does not grow the process that it passes through."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.redis.embedded import EmbeddedServer
from tests.support.played.own_process import printed_by

MAX_GROWTH_MIB = 64


@pytest.mark.parametrize(
    ("order", "rows", "columns"),
    [
        ("C", 16_384, 16_384),  # 1 GiB
        ("F", 8192, 8192),  # 256 MiB
        ("F", 4, 4_194_304),  # rows longer than anything held in memory
        ("F", 4_194_304, 4),  # and columns
    ],
)
def test_streaming(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, order: str, rows: int, columns: int
) -> None:
    arguments = [valkey.url, key_prefix, str(tmp_path), order, str(rows), str(columns)]
    assert float(printed_by("tests.support.http.streaming", *arguments)) < MAX_GROWTH_MIB
    assert list((tmp_path / "matrices").iterdir()) == []
