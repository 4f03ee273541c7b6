"""Views of a chart as files, and what was disturbed on them."""

from __future__ import annotations

import csv
import io
from itertools import product
from xml.etree import ElementTree

import httpx
from playwright.sync_api import expect

from tests.browser.test_charts import QUICK, legend, opened, told, two
from tools.browser import Tab

__all__ = ["two"]
MARKS = ".//*[@stroke-width='.4']"


def test_what_was_disturbed_is_hollow_and_says_so(tab: Tab, two: tuple[str, str], http: httpx.Client) -> None:
    """By its CSV: `condition` is not clean."""
    rows = list(csv.DictReader(io.StringIO(http.get(f"/v1/benchmarks/{two[0]}/results?format=csv").text)))
    for row, condition in zip(rows, ("contended", "clean", "clean"), strict=True):
        row["condition"] = condition
    held = io.StringIO(newline="")
    writer = csv.DictWriter(held, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    tab.page.route("**/results?format=csv", lambda route: route.fulfill(content_type="text/csv", body=held.getvalue()))
    page = opened(tab, f"/ui/benchmarks/{two[0]}")
    page.locator("#chart .chart-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("contended: not to be compared")
    page.keyboard.press("ArrowRight")
    expect(told(page)).not_to_contain_text("not to be compared")
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").click()
    marks = ElementTree.fromstring(download.value.path().read_text()).findall(MARKS)
    assert [mark.get("fill") == mark.get("stroke") for mark in marks] == [False, True, True]


def test_views_are_saved_as_files(tab: Tab) -> None:
    page = opened(tab, QUICK)
    with page.expect_download() as download:
        page.get_by_role("button", name="as CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert {row["series"] for row in rows} == set(legend(page).all_inner_texts()) and len(rows) == 20
    with page.expect_download() as download:
        page.get_by_role("button", name="as SVG").click()
    drawn = ElementTree.fromstring(download.value.path().read_text())
    words = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Matrix size N", "Speed, TFLOP/s", "warp_tiled", "1\u202f024"} <= words
    assert len(drawn.findall(MARKS)) == 20
    with page.expect_download() as download:
        page.get_by_role("button", name="as PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_chart_reads_csv_as_it_is_written(tab: Tab) -> None:
    page = opened(tab, QUICK)
    cells = ["", 'a "tile"', "one, two", "a line\r\nand another\nand", '"', "plain", "€"]
    written = [{"case": a, "kernel": b, "reason": c, "n": n} for n, (a, b, c) in enumerate(product(cells, repeat=3))]
    held = io.StringIO(newline="")
    writer = csv.DictWriter(held, list(written[0]))
    writer.writeheader()
    writer.writerows(written)
    read = page.evaluate(
        "async (text) => new (await import('/ui/static/chart_rows.js')).Table({n: 'integer'}).rows(text)",
        held.getvalue(),
    )
    assert read == [{name: None if value == "" else value for name, value in row.items()} for row in written]
