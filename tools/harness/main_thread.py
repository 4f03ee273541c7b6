"""Processor time that a page's main thread takes for a load and for updates, from Chromium's trace: other
processes do not count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

from playwright.sync_api import Page

from tools.harness.page_speed import NEXT_UPDATE, PAINTED, Growing, wait_for_chart

TASK = "RunTask"
CATEGORIES = ("disabled-by-default-devtools.timeline", "blink.user_timing", "loading")
FIRST_CONTENT = "firstContentfulPaint"
MARK = "update of a live page"
# The frames in which the update is shown, and what they leave to do.
SHOWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The main thread's tasks of one update."""

    longest_ms: float
    whole_ms: float


def first_paint_task_ms(page: Page, url: str) -> float:
    """From the request to the first content on the screen."""
    with _traced(page) as events:
        page.goto(url)
        page.wait_for_function(PAINTED)
    painted = _first_content(events)
    return sum(times_us(events, painted, painted["ts"])) / 1e3


def chart_task_ms(page: Page, url: str) -> float:
    """From the request until the page's chart is shown."""
    with _traced(page) as events:
        page.goto(url)
        wait_for_chart(page)
        page.evaluate(SHOWN)
    return sum(times_us(events, _first_content(events))) / 1e3


def updates_tasks(page: Page, benchmark: Growing, count: int) -> Sequence[Tasks]:
    """Tasks of updates with one new point on the chart each. The page shows the benchmark's results."""
    with _traced(page) as events:
        for _ in range(count):
            page.evaluate(f"performance.mark('{MARK}')")
            page.evaluate(NEXT_UPDATE)
            benchmark.add(1)
            page.evaluate("updated")
            page.evaluate(SHOWN)
        page.evaluate(f"performance.mark('{MARK}')")
    return list(tasks_of(events))


@contextmanager
def _traced(page: Page) -> Iterator[list[dict[str, Any]]]:
    """The list holds the trace's events at the end."""
    browser = page.context.browser
    assert browser is not None
    events: list[dict[str, Any]] = []
    browser.start_tracing(page=page, categories=list(CATEGORIES))
    try:
        yield events
    finally:
        events += json.loads(browser.stop_tracing())["traceEvents"]


def _first_content(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    (painted,) = (event for event in events if event["name"] == FIRST_CONTENT)
    return painted


def tasks_of(events: Sequence[dict[str, Any]]) -> Iterator[Tasks]:
    """Between each two marks, of the thread that they are of."""
    marks = sorted((event for event in events if event["name"] == MARK), key=lambda event: event["ts"])
    for begun, ended in pairwise(marks):
        found = times_us(events, begun, ended["ts"], begin=begun["ts"])
        yield Tasks(longest_ms=max(found) / 1e3, whole_ms=sum(found) / 1e3)


def times_us(
    events: Sequence[dict[str, Any]], mark: dict[str, Any], end: float = inf, *, begin: int = 0
) -> Sequence[int]:
    """Of each task between the two times, of the thread that the mark is of."""
    return [
        event.get("tdur", 0)  # none of a task that the trace cuts off
        for event in events
        if event["name"] == TASK
        and (event["pid"], event["tid"]) == (mark["pid"], mark["tid"])
        and begin <= event["ts"] < end
    ]
