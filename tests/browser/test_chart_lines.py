"""Which points of a chart a line joins."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from tests.browser.test_charts import SIZES, benchmark, legend, opened
from tools.browser import Tab
from tools.harness.api import ended


def test_a_line_joins_products_of_one_form_alone(tab: Tab, http: httpx.Client) -> None:
    """Shapes that share an n, but neither m nor k, would be joined by a vertical line."""
    skinny = [{"m": 16, "n": n, "k": n} for n in SIZES[:2]]
    job_id = benchmark(http, shapes=[*SIZES[:2], *skinny])
    ended(http, job_id)
    page = opened(tab, f"/ui/benchmarks/{job_id}?x=n&y=gflops")
    expect(legend(page)).to_have_count(2)
    assert sorted(legend(page).all_inner_texts()) == ["cpu_blas, 16×N×N", "cpu_blas, N×N×N"]


def test_sizes_that_would_meet_along_the_axis_are_slanted(tab: Tab) -> None:
    tab.page.goto(f"{tab.url}/ui/published/h200_quick")
    meet = "async (words) => (await import('/ui/static/chart_scale.js')).meet(words, 250, 6.6)"
    assert tab.page.evaluate(meet, ["64", "128", "16×512×512", "256", "512"])
    assert not tab.page.evaluate(meet, ["64", "128", "256", "512"])
    assert not tab.page.evaluate(meet, ["16×512×512"])
