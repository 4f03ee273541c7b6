"""The five tasks that people come with take no more steps than were recorded."""

from __future__ import annotations

import json

from playwright.sync_api import Browser

from benchmarks.tasks import TASKS, count
from tests.support.recorded import RESULTS
from tools.stack import Stack


def test_no_task_takes_more_steps_than_recorded(browser: Browser, stack: Stack) -> None:
    recorded = json.loads((RESULTS / "tasks.json").read_text())["after"]
    found = count(browser, stack.url)
    assert list(found) == list(recorded) == [task for task, _ in TASKS]
    longer = {
        task: (one["way"], recorded[task]["steps"])
        for task, one in found.items()
        if one["steps"] is None or one["steps"] > recorded[task]["steps"]
    }
    assert longer == {}
