"""Charts in a real browser: they can be asked by pointer and by keyboard, and their address holds what they show."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tools.browser import Tab, stopped
from tools.harness.api import ended
from tools.stack import Stack

QUICK, LADDER = "/ui/published/h200_quick?plot=gflops", "/ui/published/h200_ladder"
# As live.js tells of new parts; returns once the chart has taken them.
TAKE = """new Promise((done) => {
  new PerformanceObserver(() => done()).observe({ entryTypes: ["measure"] });
  document.dispatchEvent(new Event("matmul:taken"));
})"""
SIZES = [64, 256, 1024]  # so far apart that a loaded machine, too, takes longer for a larger one
# Warm, for writing over a large cache before each product takes longer than the product.
TIMING = {"rounds": 1, "warmup_ms": 0.0, "min_samples": 5, "max_samples": 50, "min_time_s": 0.05, "cache": "warm"}


def benchmark(http: httpx.Client, **spec: object) -> str:
    """A benchmark's job; its id."""
    asked = {"kernels": ["cpu_blas"], "shapes": SIZES, "timing": TIMING} | spec
    return http.post("/v1/benchmarks", json=asked).raise_for_status().headers["location"].rpartition("/")[2]


@pytest.fixture(scope="module")
def two(stack: Stack) -> Iterator[tuple[str, str]]:
    """Two finished benchmarks."""
    with httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as http:
        jobs = benchmark(http), benchmark(http)
        for job_id in jobs:
            assert ended(http, job_id)["state"] == "succeeded"
        yield jobs


def legend(page: Page) -> Locator:
    return page.locator("#chart .legend button")


def opened(tab: Tab, path: str) -> Page:
    page = tab.open(path)
    expect(page.locator("#chart canvas")).to_be_visible()
    expect(legend(page).first).to_be_visible()
    return page


def caption(page: Page, words: str) -> Locator:
    """Of the table below the chart."""
    return page.locator("caption", has_text=words)


def unfolded(page: Page) -> None:
    page.get_by_text("Axes and overlays").click()


def told(page: Page) -> Locator:
    """What the point says that is meant."""
    return page.locator("#chart .tip-words")


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_pointing_at_the_chart_says_the_figures(tab: Tab, http: httpx.Client) -> None:
    tab.page.route("**/plots/**", lambda route: route.abort())  # the picture is for pages without a chart
    page = opened(tab, QUICK)
    expect(page.locator("img.drawn-already")).to_be_hidden()
    expect(page.locator("#chart")).to_contain_text("float32 peak, theoretical: 66\u202f908")
    over = page.locator("#chart .u-over")
    box = over.bounding_box()
    assert box is not None
    rows = csv.DictReader(io.StringIO(http.get("/ui/published/h200_quick/results.csv").text))
    speeds = {(row["kernel"], row["n"]): float(row["gflops"]) for row in rows}
    expect(told(page)).to_be_hidden()
    for step in range(1, 40):
        page.mouse.move(box["x"] + box["width"] * step / 40, box["y"] + box["height"] * (1 - step / 40))
        page.evaluate("() => new Promise(requestAnimationFrame)")
        if told(page).is_visible():
            break
    found = re.search(
        r"(\w+), float32, N = (\d+).*Speed, ([GT])FLOP/s: ([\d.\u202f]+)", told(page).inner_text(), re.DOTALL
    )
    assert found is not None
    figure = float(found[4].replace("\u202f", "")) * {"G": 1, "T": 1000}[found[3]]
    assert figure == pytest.approx(speeds[found[1], found[2]], rel=1e-3)
    page.mouse.move(0, 0)
    expect(told(page)).to_be_hidden()


def test_the_keyboard_goes_from_point_to_point(tab: Tab) -> None:
    page = opened(tab, QUICK)
    page.locator("#chart .chart-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("naive, float32, N = 128")
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("naive, float32, N = 256")
    page.keyboard.press("ArrowDown")
    expect(told(page)).to_contain_text("shared_tiled, float32, N = 256")  # of the next line, at the same place
    expect(page.locator("#chart [aria-live]")).to_contain_text("shared_tiled")
    page.keyboard.press("Escape")
    expect(told(page)).to_be_hidden()


def test_chosen_fields_are_in_the_address_and_survive_a_reload(tab: Tab, two: tuple[str, str]) -> None:
    page = opened(tab, f"/ui/benchmarks/{two[0]}")
    page.evaluate("window.isFirst = true")
    unfolded(page)
    page.get_by_label("Y axis", exact=True).select_option("kernel_ms")
    expect(caption(page, "Kernel time, ms by Matrix size N, coloured by Kernel")).to_be_visible()
    page.get_by_label("X axis", exact=True).select_option("flops")
    page.get_by_label("Colour", exact=True).select_option("n")
    page.get_by_label("Y scale").select_option("log")
    expect(legend(page)).to_have_text(["n 1024", "n 256", "n 64"], use_inner_text=True)
    assert page.evaluate("window.isFirst"), "the page is still the same"
    chosen = {"plot": ["gflops"], "x": ["flops"], "y": ["kernel_ms"], "colour": ["n"], "yscale": ["log"]}
    assert query(page) == chosen
    page.reload()
    expect(legend(page)).to_have_text(["n 1024", "n 256", "n 64"], use_inner_text=True)
    expect(page.get_by_label("Y axis", exact=True)).to_have_value("kernel_ms")
    expect(
        page.locator("caption", has_text="Kernel time, ms by Operations, FLOP, coloured by Matrix size N")
    ).to_be_visible()
    assert query(page) == chosen


def test_the_latest_choice_counts_whichever_reply_comes_first(tab: Tab, two: tuple[str, str]) -> None:
    page = opened(tab, f"/ui/benchmarks/{two[0]}")
    held: list[Route] = []
    unfolded(page)
    page.route(lambda url: "y=kernel_ms" in url and "colour=n" not in url, lambda route: held.append(route))
    page.get_by_label("Y axis", exact=True).select_option("kernel_ms")
    page.wait_for_function("location.search.includes('y=kernel_ms')")
    page.get_by_label("Colour", exact=True).select_option("n")
    expect(legend(page)).to_have_text(["n 1024", "n 256", "n 64"], use_inner_text=True)
    assert len(held) == 1
    with page.expect_event("requestfinished", lambda request: request.url == held[0].request.url):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    expect(
        page.locator("caption", has_text="Kernel time, ms by Matrix size N, coloured by Matrix size N")
    ).to_be_visible()
    expect(legend(page)).to_have_text(["n 1024", "n 256", "n 64"], use_inner_text=True)


def test_the_legend_hides_lines_by_keyboard(tab: Tab) -> None:
    page = opened(tab, QUICK)
    naive = legend(page).filter(has_text=re.compile("^naive$"))
    naive.focus()
    page.keyboard.press("Enter")
    expect(naive).to_have_attribute("aria-pressed", "false")
    expect(naive).to_be_focused()
    assert query(page)["hide"] == ["naive"]
    page.reload()
    expect(naive).to_have_attribute("aria-pressed", "false")
    page.locator("#chart .chart-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("shared_tiled")  # the first line that is shown


def test_published_results_are_laid_over_one_s_own(tab: Tab, two: tuple[str, str]) -> None:
    page = opened(tab, f"/ui/benchmarks/{two[0]}")
    expect(legend(page)).to_have_count(1)
    unfolded(page)
    page.get_by_label("on a P100").check()
    expect(legend(page).filter(has_text="NVIDIA Tesla P100").first).to_be_visible()
    assert query(page)["over"] == ["p100_register_blocking"]
    page.reload()
    expect(legend(page).filter(has_text="NVIDIA Tesla P100").first).to_be_visible()
    page.get_by_label("on a P100").uncheck()
    expect(legend(page)).to_have_count(1)


def test_a_dragged_rectangle_is_zoomed_into(tab: Tab) -> None:
    page = opened(tab, QUICK)
    back = page.get_by_role("button", name="Show all again")
    expect(back).to_be_hidden()
    box = page.locator("#chart .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.6, steps=4)
    page.mouse.up()
    expect(back).to_be_visible()
    back.click()
    expect(back).to_be_hidden()


def test_points_land_while_the_benchmark_runs(tab: Tab, http: httpx.Client, stack: Stack) -> None:
    with stopped(stack.workers[0]):
        page = tab.open(f"/ui/benchmarks/{benchmark(http, preset='quick', shapes=[64, 96, 128, 160, 192, 224])}")
        expect(page.locator("#facts-now")).to_contain_text("queued")
        expect(page.get_by_text("There is nothing to draw yet.")).to_be_visible()
        page.evaluate("window.isFirst = true")
    expect(legend(page)).to_have_text(["cpu_blas"])
    expect(page.locator("#facts-now")).to_contain_text("succeeded")
    frame = page.get_by_role("group", name="Chart of 6 points")
    expect(frame).to_be_visible()  # the last one has landed
    frame.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("N = 224")
    assert page.evaluate("window.isFirst")


@pytest.mark.parametrize("times", [2, 1000])
def test_a_new_point_takes_nothing_from_its_reader(
    tab: Tab, http: httpx.Client, two: tuple[str, str], times: int
) -> None:
    """The rows of a run are played: more of them at each look. A row so many times as fast changes the scale or not."""
    head, *lines = http.get(f"/v1/benchmarks/{two[0]}/results?format=csv").text.rstrip("\r\n").split("\r\n")
    speed = head.split(",").index("gflops")
    rows = [line.split(",") for line in lines]
    for row, factor in zip(rows, (1, 2, 2 * times), strict=True):
        row[speed : speed + 3] = [str(factor)] * 3  # with the ends of its interval
    csv_lines = [head, *(",".join(row) for row in rows)]
    shown = 3
    tab.page.route(
        "**/results?format=csv",
        lambda route: route.fulfill(content_type="text/csv", body="\r\n".join(csv_lines[:shown])),
    )
    page = opened(tab, f"/ui/benchmarks/{two[0]}")
    frame = page.locator("#chart .chart-frame")
    frame.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("N = 256")
    shown = 4
    page.evaluate(TAKE)
    expect(told(page)).to_be_visible()
    expect(told(page)).to_contain_text("N = 256")
    expect(frame).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("N = 1024")


def test_the_roofline_of_a_recorded_run(tab: Tab) -> None:
    page = tab.open(f"{LADDER}?plot=roofline")
    page.get_by_role("img", name=re.compile("^naive_uncoalesced, int32")).hover()
    words = page.locator("body > .tip-words")
    expect(words).to_contain_text("of the measured roof")
    point = page.get_by_role("img", name=re.compile("^warp_tiled, float32"))
    page.get_by_role("link", name="what the tiles read").click()
    expect(page).to_have_url(re.compile("model=tile"))
    point.focus()
    expect(words).to_contain_text(re.compile(r"warp_tiled, float32, 8192; .* at \d+(\.\d+)? FLOP per byte"))
    assert query(page)["model"] == ["tile"]
    page.keyboard.press("Escape")
    expect(words).to_be_hidden()


def test_two_results_are_compared(tab: Tab, two: tuple[str, str]) -> None:
    page = tab.open(f"/ui/benchmarks/{two[0]}")
    page.get_by_role("link", name="Compare with a later run").click()
    page.get_by_label("Compared with it: the run after").select_option(two[1])
    page.get_by_role("button", name="Compare", exact=True).click()
    marks = page.locator("#ratios ~ figure [data-tip]")
    expect(marks).to_have_count(3)
    marks.first.hover()
    expect(page.locator("body > .tip-words")).to_contain_text(re.compile(r"times as fast \([\d.]+ to [\d.]+\)"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (380, "dark")])
def test_everybody_can_read_them(tab: Tab, two: tuple[str, str], width: int, scheme: Literal["light", "dark"]) -> None:
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.set_viewport_size({"width": width, "height": 800})
    mine = f"/ui/benchmarks/{two[0]}"
    for path in (f"{mine}?over=h200_quick&y=kernel_ms", f"{LADDER}?plot=block-sizes"):
        opened(tab, path)
        assert (tab.overflow(), tab.violations()) == (0, []), path
    compared = f"/ui/compare?before={two[0]}&after={two[1]}&after={two[0]}"
    for path in (f"{LADDER}?plot=heatmap", f"{LADDER}?plot=roofline", f"{LADDER}?plot=breakdown", compared):
        tab.open(path)
        assert (tab.overflow(), tab.violations()) == (0, []), path
