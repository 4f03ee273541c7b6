"""Every page as everybody can read it: wide and narrow, light and dark, by axe-core's rules, by keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Literal, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, Page, expect

from service.dashboard.routers import ROUTERS
from tests.browser.conftest import TIMEOUT_MS
from tests.browser.test_live import AWAY, POLL_MS, submit
from tools.browser import Tab
from tools.harness.api import ended, http_client
from tools.stack import Stack, kill_group

BENCHMARK = {
    "kernels": ["cpu_blas"],
    "shapes": [32, 64],
    "timing": {"rounds": 1, "warmup_ms": 0.0, "min_samples": 5, "max_samples": 5, "min_time_s": 0.0},
}
# By name: the address, of a job, of a benchmark and of another. Kernels are some with few measured products:
# each is a row, and thousands of rows take axe long and are all alike.
ADDRESSES = {
    "overview": "/",
    "jobs": "/ui/jobs",
    "jobs, filtered": "/ui/jobs?state=succeeded&kind=matmul&q=job_",
    "jobs, none": "/ui/jobs?q=nothing-has-this-name",
    "many jobs": "/ui/jobs/many?action=retry&scope=all",
    "jobs, sorted": "/ui/jobs?sort=-took&since=24h",
    "operations": "/ui/operations",
    "dead letters": "/ui/dead-letters",
    "pinned": "/ui/pinned",
    "job": "/ui/jobs/{job}",
    "job of a benchmark": "/ui/jobs/{first}",
    "multiply": "/ui/multiply",
    "new benchmark": "/ui/benchmarks/new",
    "new benchmark, cloned": "/ui/benchmarks/new?clone={first}",
    "results": "/ui/benchmarks/{first}",
    "compare, empty": "/ui/compare",
    "compare": "/ui/compare?before={first}&after={second}",
    "compare, with a published run": "/ui/compare?before=published:h200_quick&after={first}",
    "leaderboard": "/ui/leaderboard?dtype=float32&accuracy=fp32&size=4097",
    "published": "/ui/published",
    "published, a report": "/ui/published/p100_register_blocking",
    "published, our own": "/ui/published/h200_quick",
    "write a report": "/ui/benchmarks/{first}/report",
    "write a report, published": "/ui/published/h200_quick/report",
    "kernels": "/ui/kernels",
    "kernel": "/ui/kernels/naive",
    "kernel with steps": "/ui/kernels/shared_tiled",
    "assembly": "/ui/kernels/naive/assembly",
    "kernel of a library": "/ui/kernels/cublas_bf16",
    "devices": "/ui/devices",
    "history": "/ui/devices/history?device={device}",
    "sign-in": "/ui/sign-in?next=/ui/jobs",
    "problem": "/ui/kernels/nope",
}
NOT_PAGES = ("/ui/static/", "/site/", "/results.csv", "/plots/")
REDIRECTED = {"/ui/benchmarks", "/site"}
EACH = pytest.mark.parametrize("name", ADDRESSES)


class View(NamedTuple):
    """How somebody looks at a page."""

    width: int
    scheme: Literal["light", "dark"]


class Sent(NamedTuple):
    """A page as it is sent. `is_live`: it keeps itself fresh."""

    heading: str
    is_live: bool


VIEWS = (View(380, "dark"), View(1280, "light"))

# Remembers what had the focus, and which of that did not look like it.
WATCH = """() => {
  window.reached = new Set();
  window.unseen = [];
  addEventListener('focusin', ({target}) => {
    reached.add(target);
    const {outlineStyle, outlineWidth} = getComputedStyle(target);
    if (outlineStyle === 'none' || parseFloat(outlineWidth) === 0) unseen.push(target.outerHTML.slice(0, 200));
  });
}"""
# What can be used: of a group of radio buttons the keyboard stops at one, and arrows lead to the others.
USABLE = """() => [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'
  )].filter(one => one.checkVisibility({visibilityProperty: true}) && !one.matches(':disabled')
    && !(one.matches('[type=radio]:not(:checked)')
         && document.querySelector(`[type=radio][name="${one.name}"]:checked`)))"""

MISSED = f"({USABLE})().filter(one => !reached.has(one)).map(one => one.outerHTML.slice(0, 200))"
STEP = 20
SCROLLERS = 60  # at most: a browser stops at what scrolls as well


def finished(http: httpx.Client, spec: dict[str, object]) -> str:
    """A benchmark's job that has come to its end."""
    path = http.post("/v1/benchmarks", json=spec).raise_for_status().headers["location"]
    record = ended(http, path.rpartition("/")[2])
    assert record["state"] == "succeeded"
    return str(record["id"])


@pytest.fixture(scope="module")
def known(stack: Stack) -> Iterator[dict[str, str]]:
    """What addresses are filled with: a product's job, two benchmarks, their device."""
    with http_client(stack.url) as http:
        job = submit(http)
        first, second = finished(http, BENCHMARK), finished(http, BENCHMARK)
        record = ended(http, job)
        yield {"job": job, "first": first, "second": second, "device": record["device"]}


def opened(tab: Tab, known: dict[str, str], name: str) -> None:
    """The page does not change while it is looked at."""
    tab.page.clock.install()
    tab.page.add_init_script("sessionStorage.setItem('paused', 'yes')")
    drawn(tab.open(ADDRESSES[name].format(**known)))
    if name == "problem":
        assert all("404" in problem for problem in tab.problems)
        tab.problems.clear()


def drawn(page: Page) -> None:
    """Returns once the page's chart is there, if it has one."""
    for chart in page.locator("#chart").all():
        expect(chart.locator(".legend button").first).to_be_visible()


def test_no_page_is_forgotten(known: dict[str, str]) -> None:
    paths = [address.format(**known).partition("?")[0] for address in ADDRESSES.values()]
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    pages = {route.path for route in routes if "GET" in (route.methods or ())} - REDIRECTED
    for page in (page for page in pages if not any(part in page for part in NOT_PAGES)):
        pattern = re.compile(re.sub(r"\{[^}]+\}", "[^/]+", page))
        assert any(pattern.fullmatch(path) for path in paths), f"{page} stands in no address here"


@EACH
def test_everybody_can_read_and_use_it(tab: Tab, known: dict[str, str], name: str) -> None:
    """The page is opened once, used by keyboard in the last view, and left without its API at the end."""
    opened(tab, known, name)
    for view in VIEWS:
        tab.page.set_viewport_size({"width": view.width, "height": 800})
        tab.page.emulate_media(color_scheme=view.scheme)
        assert tab.violations() == [], view
        assert tab.overflow() == 0, view
    the_keyboard_reaches_everything(tab)
    it_stays_while_the_api_is_away(tab)


def the_keyboard_reaches_everything(tab: Tab) -> None:
    tab.page.evaluate(WATCH)
    usable: int = tab.page.evaluate(f"({USABLE})().length")
    assert usable > 5
    pressed, missed = 0, [""]
    while missed and pressed < 2 * usable + SCROLLERS:
        for _ in range(STEP):
            tab.page.keyboard.press("Tab")
        pressed += STEP
        missed = tab.page.evaluate(MISSED)
    assert missed == []
    assert tab.page.evaluate("unseen") == []


def test_every_page_outlives_the_api(browser: Browser, stack: Stack, known: dict[str, str], http: httpx.Client) -> None:
    """Pages that keep themselves fresh say since when they cannot, what they show stays, and it is fresh again once the
    API is back. All pages are sent again then: what the others show while it is away is looked at above."""
    assert stack.api is not None
    with browser.new_context(locale="en-GB") as context:
        context.set_default_timeout(TIMEOUT_MS)
        sent = {name: sent_page(http, name, known) for name in ADDRESSES}
        tabs = {name: Tab(context.new_page(), stack.url) for name, page in sent.items() if page.is_live}
        assert {"overview", "jobs"} <= tabs.keys()
        for name, tab in tabs.items():
            tab.page.clock.install()
            tab.open(ADDRESSES[name].format(**known))
            tab.may_lose_answers = True
        kill_group(stack.api)
        for name, tab in tabs.items():
            tab.wait(POLL_MS)
            expect(tab.page.locator("#freshness")).to_have_text(AWAY)
            expect(tab.page.locator("h1")).to_have_text(sent[name].heading)
        stack.start_api()
        stack.wait_until_ready()
        for name, tab in tabs.items():
            tab.wait(POLL_MS)
            expect(tab.page.locator("#freshness")).to_be_empty()
            tab.may_lose_answers = False
            tab.page.reload()
            expect(tab.page.locator("h1")).to_have_text(sent[name].heading)
            assert not tab.problems, name
        assert {name: sent_page(http, name, known) for name in ADDRESSES} == sent


def sent_page(http: httpx.Client, name: str, known: dict[str, str]) -> Sent:
    reply = http.get(ADDRESSES[name].format(**known))
    assert reply.status_code == (404 if name == "problem" else 200)
    (found,) = re.findall(r"<h1[^>]*>(.*?)</h1>", reply.text, re.DOTALL)
    words = " ".join(unescape(re.sub(r"<[^>]+>", "", found)).split())
    return Sent(words, re.search(r"<main[^>]* data-(poll|events)=", reply.text) is not None)


def it_stays_while_the_api_is_away(tab: Tab) -> None:
    """It has none to ask for, or its updates are paused, so it says nothing of it."""
    heading_then = tab.page.locator("h1").inner_text()
    tab.page.context.set_offline(True)
    tab.wait(POLL_MS)
    expect(tab.page.locator("#freshness")).to_be_empty()
    expect(tab.page.locator("h1")).to_have_text(heading_then)
