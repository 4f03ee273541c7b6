"""A client of the pages, and a benchmark that has ended."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.api.test_benchmark_results import done
from tools.harness.api import Api


@pytest.fixture
def browser(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


@pytest.fixture(scope="module")
def finished(api: Api) -> str:
    with api.client() as client:
        return done(api, client)
