"""Pages that keep themselves fresh, in a real browser before the whole service."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tools.browser import Tab, stopped
from tools.harness.api import ended
from tools.harness.benchmarks import finish
from tools.harness.page_speed import begun, played_on
from tools.stack import Stack, kill_group

PAUSE = "Pause updates"
POLL_MS = 2000  # what a page waits between two looks
LONG_MS = 15 * POLL_MS
AWAY = re.compile(r"^No answer since [\d:]{8}; shown as of [\d:]{8}\.$")  # what it says of an API that is away

# `taken` is kept once the page has taken its next answer.
NEXT_TAKEN = """() => {
  window.taken = new Promise(done => document.addEventListener('matmul:taken', () => done(), {once: true}));
}"""
PLACES = {"overview": ("/", "main"), "jobs": ("/ui/jobs?q={}", "#jobs-now"), "job": ("/ui/jobs/{}", "main")}


def submit(http: httpx.Client) -> str:
    """A product's job; its id."""
    body = {"a": [[1, 2]], "b": [[3], [4]]}
    reply = http.post("/v1/matmul", json=body, headers={"prefer": "respond-async"}).raise_for_status()
    return str(reply.json()["job"]["id"])


def benchmark(http: httpx.Client) -> str:
    """Twelve measurements. Warm, for writing over a large cache before each product may take minutes."""
    timing = {"rounds": 4, "warmup_ms": 0.0, "min_samples": 5, "max_samples": 5000, "min_time_s": 0.05, "cache": "warm"}
    spec = {"kernels": ["cpu_blas"], "shapes": [256, 384, 512], "timing": timing}
    return http.post("/v1/benchmarks", json=spec).raise_for_status().headers["location"].rpartition("/")[2]


def link_to(page: Page, job_id: str) -> Locator:
    """In the table of jobs, and at the worker that has the job just now."""
    return page.locator(f':is(#last-now, #jobs-now, #workers-now) a[href="/ui/jobs/{job_id}"]')


def state(page: Page) -> Locator:
    return page.locator("#state-now .state")


@pytest.mark.parametrize("path", ["/", "/ui/jobs"])
def test_a_new_job_shows_up_without_a_reload(tab: Tab, http: httpx.Client, path: str) -> None:
    page = tab.open(path)
    page.evaluate("window.isFirst = true")
    job_id = submit(http)
    expect(link_to(page, job_id).first).to_be_visible()
    row = page.locator("#last-now tr, #jobs-now tr", has=page.locator(f'a[href="/ui/jobs/{job_id}"]'))
    expect(row).to_contain_text("succeeded")
    assert page.evaluate("window.isFirst")


def test_a_job_s_page_follows_it_to_its_end_and_then_rests(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with stopped(stack.workers[0]):
        page = tab.open(f"/ui/jobs/{submit(http)}")
        expect(state(page)).to_have_text("queued")
    expect(state(page)).to_have_text("succeeded")
    expect(page.get_by_role("link", name="Download the product")).to_be_visible()
    expect(page.get_by_role("heading", name="Where the time went")).to_be_visible()
    expect(page.locator("main[data-events]")).to_have_count(0)


def test_a_benchmark_moves_and_leads_to_its_results(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with played_on(stack) as api:
        watched = begun(api, http, shapes=[256, 384, 512])
        page = tab.open(f"/ui/jobs/{watched.job.id}")
        for done in (1, 2, 3):
            watched.add(1)
            expect(page.locator("#state-now label")).to_have_text(re.compile(f"^{done} of 3"))
        finish(api, watched.job)
        expect(state(page)).to_have_text("succeeded")
    expect(page.locator("#found-now")).to_contain_text("3 ok")
    page.get_by_role("link", name="Results").click()
    expect(page.get_by_role("heading", name="Cases")).to_be_visible()


def test_a_job_is_cancelled_on_its_page(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with stopped(stack.workers[0]):
        page = tab.open(f"/ui/jobs/{submit(http)}")
        page.get_by_role("button", name="Cancel").click()
        expect(state(page)).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Retry")).to_be_visible()


def test_an_api_that_is_away_is_told_until_it_is_back(browser: Browser, http: httpx.Client, stack: Stack) -> None:
    """On three pages at once."""
    assert stack.api is not None
    with browser.new_context(locale="en-GB") as context:
        with stopped(stack.workers[0]):
            job_id = submit(http)
            tabs = {place: Tab(context.new_page(), stack.url) for place in PLACES}
            for place, tab in tabs.items():
                tab.page.clock.install()
                path, part = PLACES[place]
                expect(tab.open(path.format(job_id)).locator(part)).to_contain_text("queued")
                expect(tab.page.locator("#freshness")).to_be_empty()
                tab.may_lose_answers = True
            kill_group(stack.api)
            for tab in tabs.values():
                tab.wait(POLL_MS)
                expect(tab.page.locator("#freshness")).to_have_text(AWAY)
        stack.start_api()
        stack.wait_until_ready()
        for tab in tabs.values():
            tab.wait(POLL_MS)
            expect(tab.page.locator("#freshness")).to_be_empty()
            tab.may_lose_answers = False
        for place, tab in tabs.items():
            expect(tab.page.locator(PLACES[place][1])).to_contain_text("succeeded")
            assert not tab.problems


def test_a_stream_that_fails_is_made_up_for_by_asking(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    tab.page.route("**/events", lambda route: route.fulfill(status=200, content_type="text/plain", body="no"))
    with stopped(stack.workers[0]):
        page = tab.open(f"/ui/jobs/{submit(http)}")
        expect(state(page)).to_have_text("queued")
    expect(state(page)).to_have_text("succeeded")
    assert tab.problems and all("MIME type" in problem for problem in tab.problems)
    tab.problems.clear()


def looks(tab: Tab) -> int:
    """How often the page asks while a long time passes for it."""
    before = tab.requests
    tab.page.clock.run_for(LONG_MS)
    return tab.requests - before


def test_paused_updates_change_nothing_until_they_go_on(tab: Tab, http: httpx.Client) -> None:
    tab.page.clock.install()
    page = tab.open("/")
    button = page.get_by_role("button", name=PAUSE)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    job_id = submit(http)
    assert looks(tab) == 0
    page.reload()
    expect(button).to_have_attribute("aria-pressed", "true")  # remembered
    later = submit(http)
    assert looks(tab) == 0
    expect(link_to(page, job_id).first).to_be_visible()
    expect(link_to(page, later)).to_have_count(0)
    button.click()
    expect(link_to(page, later).first).to_be_visible()


def test_a_hidden_tab_asks_nothing(tab: Tab, http: httpx.Client) -> None:
    tab.page.clock.install()
    page = tab.open("/")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    job_id = submit(http)
    assert looks(tab) == 0
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    expect(link_to(page, job_id).first).to_be_visible()


def test_what_has_the_focus_is_left_alone(tab: Tab, http: httpx.Client) -> None:
    tab.page.clock.install()
    first = submit(http)
    ended(http, first)
    page = tab.open("/")
    link = page.locator(f'#last-now a[href="/ui/jobs/{first}"]')  # the worker may lead to it still
    link.focus()
    before = page.locator("#health-now").inner_text()
    later = submit(http)
    tab.wait(POLL_MS)
    expect(page.locator("#health-now")).not_to_have_text(before, use_inner_text=True)
    expect(link).to_be_focused()
    expect(page.locator(f'#last-now a[href="/ui/jobs/{later}"]')).to_have_count(0)
    page.get_by_role("button", name=PAUSE).focus()
    tab.wait(POLL_MS)
    expect(link_to(page, later).first).to_be_visible()


def focused(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(
        "({words: document.activeElement.textContent, leads: document.activeElement.getAttribute('href')})"
    )
    return found


def test_the_keyboard_reaches_everything(tab: Tab, http: httpx.Client) -> None:
    job_id = submit(http)
    page = tab.open("/ui/jobs")
    reached: list[dict[str, Any]] = []
    while not reached or reached[-1]["leads"] != f"/ui/jobs/{job_id}":
        page.keyboard.press("Tab")
        reached.append(focused(page))
        assert len(reached) < 60, reached  # or it goes round
    words = [each["words"] for each in reached]
    assert words[:3] == ["To the content", "matmul-service", "Overview"]
    assert words.index("Jobs") < words.index(PAUSE) < words.index("Show")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Job job_")
