"""The control room in a real browser before the whole service: history, drain and pause, views, steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TIMEOUT_MS
from tests.browser.test_live import benchmark, state, submit
from tools.browser import Tab, stopped
from tools.harness.api import ended, until
from tools.stack import Stack

MULTIPLY = {"a": [[1]], "b": [[2]]}


@pytest.fixture
def plain(browser: Browser, stack: Stack) -> Iterator[Page]:
    """A browser without scripts."""
    with browser.new_context(locale="en-GB", java_script_enabled=False) as context:
        context.set_default_timeout(TIMEOUT_MS)
        yield context.new_page()


def test_the_overview_draws_what_was(tab: Tab, http: httpx.Client) -> None:
    job_id = submit(http)
    ended(http, job_id)
    page = tab.open("/?over=5m")
    for name in ("Throughput", "Queue age", "Utilisation"):
        expect(page.locator("#trends-now figcaption", has_text=name)).to_be_visible()
    expect(page.locator("#timeline-now svg a").first).to_be_attached()
    page.locator("#timeline-now svg a").last.focus()
    expect(page.locator(".tip-words")).to_contain_text(re.compile("succeeded|jobs"))
    expect(page.locator("#health-now .verdict")).to_have_text(re.compile("All is well|Running|Something"))
    page.get_by_text("These jobs as a table").click()
    expect(page.locator(f'#timeline-table a[href="/ui/jobs/{job_id}"]')).to_be_visible()


def test_a_worker_is_drained_and_resumed_from_the_page(tab: Tab, http: httpx.Client) -> None:
    page = tab.open("/ui/operations")
    page.get_by_role("button", name=re.compile("^Drain ")).click()
    expect(page.locator("#steer-now")).to_contain_text("drained")
    until(lambda: http.post("/v1/matmul", json=MULTIPLY).status_code == 503)
    page.get_by_role("button", name=re.compile("^Resume ")).click()
    expect(page.locator("#steer-now")).to_contain_text("ready")
    until(lambda: http.post("/v1/matmul", json=MULTIPLY).status_code != 503)  # what the API knows of workers is older
    page.goto(f"{tab.url}/ui/jobs/{submit(http)}")
    expect(state(page)).to_have_text("succeeded")


def test_a_queue_is_paused_and_resumed_without_scripts(plain: Page, stack: Stack, http: httpx.Client) -> None:
    plain.goto(f"{stack.url}/ui/operations")
    plain.get_by_role("button", name="Pause cpu", exact=True).click()
    job_id = submit(http)
    plain.goto(f"{stack.url}/")
    expect(plain.locator("#health-now")).to_contain_text("Queue cpu paused, 1 waiting")
    plain.goto(f"{stack.url}/ui/operations")
    plain.get_by_role("button", name="Resume cpu", exact=True).click()
    assert ended(http, job_id)["state"] == "succeeded"


def test_a_view_is_saved_in_this_browser(tab: Tab) -> None:
    page = tab.open("/ui/jobs?state=succeeded&sort=-took")
    page.get_by_text("Save this view").click()
    page.get_by_label("Name of the view").fill("Slow ones")
    page.get_by_role("button", name="Save view").click()
    page.goto(f"{tab.url}/ui/jobs")
    page.get_by_role("link", name="Slow ones").click()
    expect(page).to_have_url(f"{tab.url}/ui/jobs?state=succeeded&sort=-took")
    expect(page.get_by_role("link", name="Slow ones")).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Forget the view Slow ones").click()
    expect(page.get_by_role("link", name="Slow ones")).to_have_count(0)


def test_what_changes_picked_jobs_waits_for_a_pick(tab: Tab, http: httpx.Client) -> None:
    job_id = submit(http)
    page = tab.open("/ui/jobs")
    cancel = page.get_by_role("button", name="Cancel…")
    expect(cancel).to_be_disabled()
    page.locator(f"#pick-{job_id}").check()
    expect(cancel).to_be_enabled()
    page.locator(f"#pick-{job_id}").uncheck()
    page.get_by_label("Apply to").select_option("all")
    expect(cancel).to_be_enabled()


def test_a_running_job_ticks_and_tells_what_is_left(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with stopped(stack.workers[0]):
        page = tab.open(f"/ui/jobs/{benchmark(http)}")
        expect(page.locator("#state-now")).to_contain_text(re.compile(r"it will take about \d"))
        shown = page.locator("#state-now [data-since]").inner_text()
        expect(page.locator("#state-now [data-since]")).not_to_have_text(shown)
    expect(state(page)).to_have_text("succeeded", timeout=240_000)  # a benchmark of a busy machine
    expect(page.locator("#cases + p")).to_have_text("12 measured: 12 ok.")


def test_a_tile_s_way_is_stepped_through(tab: Tab, plain: Page) -> None:
    page = tab.open("/ui/kernels/shared_tiled")
    shown = page.locator("ol.steps > li:visible")
    expect(shown).to_have_count(1)
    first = shown.inner_text()
    page.get_by_role("button", name="Next step").click()
    expect(shown).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(shown).to_have_text(first)
    plain.goto(f"{tab.url}/ui/kernels/shared_tiled")
    assert plain.locator("ol.steps > li").count() > 4
    expect(plain.locator("ol.steps > li").last).to_be_visible()


def test_results_are_pinned_and_imported_from_the_pages(tab: Tab, http: httpx.Client) -> None:
    job_id = benchmark(http)
    ended(http, job_id)
    file = http.get(f"/v1/benchmarks/{job_id}/export").content
    page = tab.open(f"/ui/jobs/{job_id}")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    page.goto(f"{tab.url}/ui/pinned")
    page.get_by_label("File").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": file})
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#facts-now")).to_contain_text("Imported from a file")
