"""What somebody does on a page counts, also before its scripts or answers have come."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.test_charts import LADDER, QUICK, caption, legend, opened, query, unfolded
from tests.browser.test_live import NEXT_TAKEN
from tools.browser import Tab
from tools.harness.api import until
from tools.harness.benchmarks import finish
from tools.harness.page_speed import begun, played_on
from tools.stack import Stack

TOOK = "document.dispatchEvent(new Event('matmul:taken'))"  # as live.js tells of new parts
AFTER_ALL = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


@pytest.mark.parametrize("means", ["focus", "hover"])
def test_a_mark_that_is_meant_already_says_its_words(tab: Tab, means: str) -> None:
    with tab.held("**/tips.js*"):
        page = tab.begin(f"{LADDER}?plot=roofline")
        mark = page.get_by_role("img", name=re.compile("^naive_uncoalesced, int32"))
        getattr(mark, means)()
        expect(page.locator("body > .tip-words")).to_have_count(0)
    expect(page.locator("body > .tip-words")).to_contain_text("naive_uncoalesced, int32, 8192;")
    expect(page.locator("body > .tip-words")).to_be_visible()


def test_the_texts_follow_what_is_typed_already(tab: Tab) -> None:
    with tab.held("**/draft.js*"):
        page = tab.begin("/ui/multiply")
        page.get_by_label("m: rows of A").fill("77")
    expect(page.locator("#texts-now pre").first).to_contain_text("[77, 512]")


def test_a_form_that_is_as_it_was_sent_asks_nothing(tab: Tab) -> None:
    for path in ("/ui/multiply", "/ui/multiply?source=files", "/ui/benchmarks/new", QUICK):
        page = tab.open(path)
        assert (
            page.evaluate(
                """async () => {
              const { isTouched } = await import('/ui/static/touched.js');
              return [...document.forms].map(isTouched);
            }"""
            )
            == [False] * page.locator("form").count()
        ), path


def test_the_chart_shows_what_is_chosen_already(tab: Tab) -> None:
    with tab.held("**/chart.js*"):
        page = tab.begin(QUICK)
        unfolded(page)
        page.get_by_label("Y axis", exact=True).select_option("kernel_ms")
    expect(caption(page, "Kernel time, ms by Matrix size N")).to_be_visible()
    expect(legend(page).first).to_be_visible()
    assert query(page)["y"] == ["kernel_ms"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_are_drawn_as_they_come_and_the_latest_stay(tab: Tab, http: httpx.Client, order: tuple[int, int]) -> None:
    """A chart that waited for the answer to its last question would stand still while each comes after the next."""
    head, *rows = http.get("/ui/published/h200_quick/results.csv").text.rstrip("\r\n").split("\r\n")
    asked: list[Route] = []
    tab.page.route("**/results.csv", lambda route: asked.append(route))
    page = tab.open(QUICK)
    page.evaluate(TOOK)
    until(lambda: page.evaluate(AFTER_ALL) or len(asked) == 2)
    for place in order:
        with page.expect_event("requestfinished"):
            asked[place].fulfill(content_type="text/csv", body="\r\n".join([head, *rows[: place + 1]]))
        page.evaluate(AFTER_ALL)
        latest = max(place, order[0])
        expect(page.get_by_role("group", name=f"Chart of {latest + 1} points")).to_be_visible()


def test_a_look_from_before_a_choice_is_not_shown(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    """Of a benchmark that runs. The chart would change back, and at its end stay so."""
    with played_on(stack) as api:
        benchmark = begun(api, http, shapes=[64, 128, 256])
        benchmark.add(2)
        path = f"/ui/benchmarks/{benchmark.job.id}"
        page = opened(tab, path)
        unfolded(page)
        with tab.held(tab.url + path):
            with page.expect_request(tab.url + path):
                benchmark.add(1)
            page.get_by_label("Y axis", exact=True).select_option("kernel_ms")
            expect(caption(page, "Kernel time, ms by")).to_be_visible()
            page.evaluate(NEXT_TAKEN)
        page.evaluate("taken")
        assert caption(page, "Kernel time, ms by").is_visible()
        finish(api, benchmark.job)


@pytest.mark.parametrize("answer", [None, 503])
def test_a_chart_whose_view_does_not_come_says_so(tab: Tab, answer: int | None) -> None:
    page = opened(tab, QUICK)
    page.route("**/ui/published/h200_quick?*", lambda route: route.fulfill(status=answer) if answer else route.abort())
    unfolded(page)
    page.get_by_label("Y axis", exact=True).select_option("kernel_ms")
    said = page.locator("#chart > .faint")
    expect(said).to_contain_text("This view did not come")
    page.unroute_all()
    tab.problems.clear()
    page.get_by_label("Y axis", exact=True).select_option("gflops")
    expect(said).not_to_contain_text("This view did not come")
