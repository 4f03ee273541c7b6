"""How fast pages are, by what they wait for and by the processor's time, so that a busy machine fails nothing;
benchmarks/ has the figures."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from benchmarks.tables.dashboard import MAX_PAINT_MS, MAX_UPDATE_MS
from tools.browser import Tab
from tools.harness.main_thread import chart_task_ms, first_paint_task_ms, updates_tasks
from tools.harness.page_speed import PAINTED, growing, played_on
from tools.stack import Stack

TRIES, UPDATES = 3, 8
BESIDE_LOAD = 1 / 16  # of what the whole page takes: so much may a busy machine, which slows both, let an update take


def test_the_overview_is_painted_before_its_scripts_come(tab: Tab) -> None:
    with tab.held("**/*.js*"):
        tab.begin("/").wait_for_function(PAINTED)


def test_the_overview_is_painted_at_once(tab: Tab) -> None:
    assert any(first_paint_task_ms(tab.page, f"{tab.url}/") < MAX_PAINT_MS for _ in range(TRIES))


def test_an_update_of_a_thousand_points_leaves_a_frame_its_time(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with played_on(stack) as api:
        benchmark = growing(api, http, UPDATES)
        try:
            load_ms = chart_task_ms(tab.page, f"{tab.url}/ui/benchmarks/{benchmark.job.id}")
            tasks = updates_tasks(tab.page, benchmark, UPDATES)
            assert min(each.longest_ms for each in tasks) < max(MAX_UPDATE_MS, BESIDE_LOAD * load_ms)
            done = f"{benchmark.done} of {len(benchmark.cases)}"
            expect(tab.page.locator("#facts-now")).to_contain_text(done, use_inner_text=True)
        finally:
            http.post(f"/v1/jobs/{benchmark.job.id}/cancel").raise_for_status()


def test_the_manual_fits_a_phone(tab: Tab) -> None:
    """What is wider scrolls within itself."""
    tab.page.set_viewport_size({"width": 380, "height": 800})
    tab.open("/docs")
    assert tab.overflow() == 0
