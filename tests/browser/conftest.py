"""One service and one Chromium for all tests here; a tab for each, in which nothing may go wrong."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tools.browser import Tab, chromium
from tools.harness.api import http_client
from tools.stack import Stack

TIMEOUT_MS = 60_000
ONE_RENDERER = "--renderer-process-limit=1"  # for all tabs: one for each would have to start, too

expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium(ONE_RENDERER) as running:
        yield running


@pytest.fixture(scope="package")
def stack(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The service as processes, with a CPU worker; its API may be killed. Not started without a browser."""
    with Stack(tmp_path_factory.mktemp("stack"), settings={"cpu_threads": "1", "redis_timeout_s": "5"}) as running:
        yield running


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx.Client]:
    with http_client(stack.url) as client:
        yield client


@pytest.fixture
def tab(browser: Browser, stack: Stack) -> Iterator[Tab]:
    with browser.new_context(locale="en-GB") as context:
        context.set_default_timeout(TIMEOUT_MS)
        opened = Tab(context.new_page(), stack.url)
        yield opened
        assert not opened.problems
