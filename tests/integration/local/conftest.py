"""What whole programs have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def time_for_redis() -> Iterator[None]:
    """On a busy machine an answer may take longer than the service waits by default, and is then refused with 503."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MATMUL_REDIS_TIMEOUT_S", "5")
        yield
