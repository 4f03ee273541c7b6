"""Chromium as a reader of the pages: tabs that remember everything that went wrong in them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, Route, sync_playwright

ABORTED = "net::ERR_ABORTED"  # what a tab that goes elsewhere does to its requests
NETWORK = "net::ERR_"
PROGRAMS = ("chromium-headless-shell", "chromium")  # the engine without a browser around it opens pages in less time
VIOLATIONS = """axe.run({resultTypes: ['violations'], selectors: false})
  .then(found => found.violations.map(one => [one.id, one.nodes.map(node => node.html)]))"""


def chromium_path() -> str:
    """The system's Chromium. Without one the test is skipped, except in CI, where it fails."""
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None and "CI" not in os.environ:
        pytest.skip("chromium is not installed")
    assert path is not None, "chromium is not installed"
    return path


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """Playwright's loop runs in this thread until the end: other tests that want one must not run meanwhile.
    `options` are Chromium's own.
    """
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *options])
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A page, and what went wrong in it: errors, violations of its policy, requests that failed or left the origin."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.may_lose_answers = False  # set while the API is away
        self.problems: list[str] = []
        self.requests = 0
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", self._on_request)
        page.on("requestfailed", self._on_failed)
        page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        is_lost = self.may_lose_answers and NETWORK in message.text
        if message.type in ("error", "warning") and not is_lost:
            self.problems.append(f"console: {message.text} ({message.location['url']})")

    def _on_request(self, request: Request) -> None:
        self.requests += 1
        if not request.url.startswith(f"{self.url}/"):
            self.problems.append(f"off the origin: {request.url}")

    def _on_failed(self, request: Request) -> None:
        if request.failure != ABORTED and not self.may_lose_answers:
            self.problems.append(f"{request.failure}: {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{response.status}: {response.url}")

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def begin(self, path: str) -> Page:
        """Opens the page and does not wait for its scripts."""
        self.page.goto(self.url + path, wait_until="commit")
        return self.page

    @contextmanager
    def held(self, addresses: str) -> Iterator[None]:
        """Requests to these addresses wait until the end, as over a slow line."""
        routes: list[Route] = []
        self.page.route(addresses, lambda route: routes.append(route))
        yield
        for route in routes:
            route.continue_()
        self.page.unroute(addresses)

    def wait(self, ms: int) -> None:
        """Advances the page's clock at once."""
        self.page.clock.fast_forward(ms)

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        found: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return found

    def violations(self) -> object:
        """What axe-core has against the page: rules, and the elements that break them."""
        if self.page.evaluate("typeof axe") == "undefined":
            self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
        return self.page.evaluate(VIOLATIONS)


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process and its group do nothing meanwhile."""
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGCONT)
