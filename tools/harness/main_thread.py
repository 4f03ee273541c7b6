"""Processor time that a page's main thread takes for updates, from Chromium's trace: other processes do not count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playwright.sync_api import Page

from tools.harness.page_speed import NEXT_UPDATE, Growing

TASK = "RunTask"
CATEGORIES = ("disabled-by-default-devtools.timeline", "blink.user_timing")
MARK = "update of a live page"
# The frames in which the update is shown, and what they leave to do.
SHOWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The main thread's tasks of one update."""

    longest_ms: float
    whole_ms: float


def updates_tasks(page: Page, benchmark: Growing, count: int) -> Sequence[Tasks]:
    """Tasks of updates with one new point on the chart each. The page shows the benchmark's results."""
    browser = page.context.browser
    assert browser is not None
    browser.start_tracing(page=page, categories=list(CATEGORIES))
    for _ in range(count):
        page.evaluate(f"performance.mark('{MARK}')")
        page.evaluate(NEXT_UPDATE)
        benchmark.add(1)
        page.evaluate("updated")
        page.evaluate(SHOWN)
    page.evaluate(f"performance.mark('{MARK}')")
    return list(tasks_of(json.loads(browser.stop_tracing())["traceEvents"]))


def tasks_of(events: Sequence[dict[str, Any]]) -> Iterator[Tasks]:
    """Between each two marks, of the thread that they are of."""
    marks = sorted((event for event in events if event["name"] == MARK), key=lambda event: event["ts"])
    for begun, ended in pairwise(marks):
        times_us = [
            event["tdur"]
            for event in events
            if event["name"] == TASK
            and (event["pid"], event["tid"]) == (begun["pid"], begun["tid"])
            and begun["ts"] <= event["ts"] < ended["ts"]
        ]
        yield Tasks(longest_ms=max(times_us) / 1e3, whole_ms=sum(times_us) / 1e3)
