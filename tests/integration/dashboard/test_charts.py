"""Charts of the pages of results, without a browser: what is drawn, over which fields, with which figures."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from typing import Any

import httpx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.plots.by_name import PLOTS, available_of
from analysis.plots.configs import config_grids
from analysis.plots.device import breakdown_bars
from analysis.plots.device import roofline as describe_roofline
from analysis.plots.looks import looks
from analysis.results import measurements
from analysis.roofline import ByteModel
from analysis.sources import measured
from analysis.tables import COLUMNS
from kernels.catalog import KERNEL_NAMES
from kernels.published import PUBLISHED
from service.dashboard.charts import breakdown, heatmap
from service.dashboard.charts.rows import published_rows
from service.dashboard.charts.svg import KERNEL_STYLES, decades, even_steps, powers_of_two, style_of
from tests.integration.api.test_benchmark_results import done, new
from tests.support.http.pages import Page, assert_no_dead_links, get
from tests.support.recorded import made, recorded_results
from tools.harness.api import Api

LADDER = recorded_results("ladder")
FOUND = measurements(LADDER)


def tips(html: str) -> list[str]:
    """What the marks of drawings say."""
    return [unescape(found) for found in re.findall(r'data-tip="([^"]*)"', html)]


def chart_data(page: Page) -> dict[str, str]:
    """What the browser's chart reads."""
    (element,) = re.findall(r'<div id="chart-data" hidden([^>]*)>', page.html)
    return {name: unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', element)}


# ---- fields ----
def test_the_chart_reads_the_same_rows_as_everybody(browser: httpx.Client, finished: str) -> None:
    data = chart_data(get(browser, f"/ui/benchmarks/{finished}"))
    assert data["csv"] == f"/v1/benchmarks/{finished}/results?format=csv"
    assert (data["x"], data["y"], data["colour"], data["configs"]) == ("n", "gflops", "kernel", "fastest")
    head = next(csv.reader(io.StringIO(browser.get(data["csv"]).text)))
    assert head == list(json.loads(data["kinds"])) and "gflops" in json.loads(data["known"])
    assert list(json.loads(data["styles"])) == list(KERNEL_NAMES)


@pytest.mark.parametrize(
    ("plot", "y"), [("time", "kernel_ms"), ("error", "error_vs_float64"), ("speedup", "speedup_vs_naive")]
)
def test_a_plot_is_a_choice_of_fields(browser: httpx.Client, finished: str, plot: str, y: str) -> None:
    page = get(browser, "/ui/published/h200_quick?plot=" + plot)
    assert chart_data(page)["y"] == y


def test_any_fields_make_a_chart_and_its_table(browser: httpx.Client, finished: str) -> None:
    page = get(browser, f"/ui/benchmarks/{finished}?x=flops&y=rel_iqr&colour=n&yscale=log&configs=all")
    data = chart_data(page)
    assert (data["x"], data["y"], data["colour"], data["configs"]) == ("flops", "rel_iqr", "n", "all")
    assert not page.images, "no picture has these fields"
    assert "Spread of the samples (IQR / median) by Operations, FLOP, coloured by Matrix size N" in page.text
    for n in (64, 128, 256):
        assert re.search(rf"{n} cpu_blas float32 [\d ]+ 0.02", page.text), n
    assert '<option value="rel_iqr" selected>' in page.html and '<option value="log" selected>' in page.html
    tab = next(link for link in page.links if "plot=time" in link)
    assert "rel_iqr" not in tab, "another plot has its own fields"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("y=speed", 422, "no field 'speed'"),
        ("y=kernel", 422, "no number"),
        ("x=nothing", 422, "no field 'nothing'"),
        ("over=no_such", 404, "no published results 'no_such'"),
        ("plot=pie", 404, "no plot of that name"),
        ("model=guessed", 422, "model"),
    ],
)
def test_what_is_no_field_is_refused(browser: httpx.Client, finished: str, query: str, status: int, words: str) -> None:
    assert words in get(browser, f"/ui/benchmarks/{finished}?{query}", status).alerts[0]


def test_what_is_laid_over_stays_from_plot_to_plot(browser: httpx.Client, finished: str) -> None:
    page = get(browser, f"/ui/benchmarks/{finished}?over=h200_quick&over=p100_register_blocking&hide=cpu_blas")
    assert page.html.count(" checked>") == 2
    tab = next(link for link in page.links if "plot=time" in link)
    assert tab.endswith("?plot=time&over=h200_quick&over=p100_register_blocking#plots")


def test_nothing_measured_yet_has_a_place_for_the_chart(browser: httpx.Client) -> None:
    page = get(browser, f"/ui/benchmarks/{new(browser)}")
    assert "There is nothing to draw yet." in page.text
    assert chart_data(page)["y"] == "gflops" and 'id="chart" hidden' in page.html


def test_sizes_stand_along_the_foot_unless_there_is_one(api: Api, browser: httpx.Client) -> None:
    fields = {
        "kernel": get(browser, "/ui/published/h200_ladder?plot=gflops"),
        "n": get(browser, "/ui/published/h200_quick?plot=gflops"),
        "size": get(browser, f"/ui/benchmarks/{done(api, browser, shapes=[64, {'m': 8, 'n': 16, 'k': 32}])}"),
    }
    assert {field: chart_data(page)["x"] for field, page in fields.items()} == {name: name for name in fields}
    crowded = get(browser, "/ui/published/h200_grade?plot=gflops")
    assert chart_data(crowded)["x"] == "size", "1024 and 1025 would fall on one another"


@pytest.mark.parametrize(
    ("name", "plot"),
    [
        ("h200_ladder", "beside-library"),
        ("h200_grade", "gflops"),
        ("h200_roofline", "roofline"),
        ("h200_config_grid", "heatmap"),
        ("h200_vs_cublas", "fraction-of-baseline"),
    ],
)
def test_a_page_opens_on_the_plot_that_answers_it(browser: httpx.Client, name: str, plot: str) -> None:
    page = get(browser, f"/ui/published/{name}")
    assert re.search(rf'plot={plot}[^"]*#plots" aria-current="true"', page.html)


# ---- published ----
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_results_have_plots_and_rows(browser: httpx.Client, name: str) -> None:
    found = measured(PUBLISHED[name])
    page = get(browser, f"/ui/published/{name}")
    assert [f">{PLOTS[plot].title}</a>" in page.html for plot in available_of(found)] == [True] * len(
        available_of(found)
    )
    reply = browser.get(f"/ui/published/{name}/results.csv")
    assert reply.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert [row["kernel"] for row in rows] == [one.label for one in found] and list(rows[0]) == list(COLUMNS)
    again = browser.get(f"/ui/published/{name}/results.csv", headers={"if-none-match": reply.headers["etag"]})
    assert again.status_code == 304


def test_a_published_run_has_the_figures_of_its_benchmark() -> None:
    rows = {
        (row["kernel"], row["dtype"], row["config"]): row for row in published_rows(measured(PUBLISHED["h200_ladder"]))
    }
    for one in LADDER.records:
        row = rows[one.kernel, one.dtype, " ".join(f"{name}={value}" for name, value in one.config.items())]
        assert row["speedup_vs_naive"] == pytest.approx(one.speedup_vs_naive)
        assert row["ai_tile_flop_per_byte"] == pytest.approx(one.ai_tile)


def test_plots_of_published_results_are_pictures(browser: httpx.Client) -> None:
    picture = "/ui/published/h200_quick/plots/gflops"
    assert browser.get(picture).headers["content-type"] == "image/svg+xml"
    assert browser.get(f"{picture}?format=png").content.startswith(b"\x89PNG")
    assert browser.get("/ui/published/h200_quick/plots/pie").status_code == 404
    assert browser.get("/ui/published/none/plots/gflops").status_code == 404


# ---- drawings ----
def test_the_roofline_of_a_recorded_run(browser: httpx.Client) -> None:
    page = get(browser, "/ui/published/h200_ladder?plot=roofline")
    said = tips(page.html)
    warp = next(words for words in said if words.startswith("warp_tiled, float32"))
    case = next(one for one in LADDER.records if (one.kernel, one.dtype) == ("warp_tiled", "float32"))
    assert case.fraction_of_roof is not None
    assert f"{100 * case.fraction_of_roof:.1f} % of the measured roof" in warp and "compute is the limit" in warp
    roofs = [words for words in said if "the ridge is at" in words]
    assert {words.split(":")[0] for words in roofs} >= {"float32, theoretical", "float32, measured"}
    assert_no_dead_links(browser, get(browser, "/ui/published/h200_ladder?plot=roofline&model=tile"))


def test_the_byte_model_moves_the_points() -> None:
    def at(model: ByteModel) -> dict[str, float]:
        described = describe_roofline(FOUND, [model])
        return {placed.name: placed.at[0].intensity for placed in described.placed} if described else {}

    compulsory, tiles = at("compulsory"), at("tile")
    assert len(set(compulsory.values())) == 1, "each matrix moved once is the same for every kernel"
    assert tiles["naive"] < tiles["shared_tiled"] < tiles["register_tiled"] < compulsory["naive"]
    assert at("measured") == {} and describe_roofline(FOUND, ["measured"]) is None


def test_the_model_without_counters_is_told(browser: httpx.Client) -> None:
    page = get(browser, "/ui/published/h200_ladder?plot=roofline&model=measured")
    assert "No counters were read" in page.text and not tips(page.html)


def test_bars_say_their_parts() -> None:
    said = tips(breakdown.draw(breakdown_bars(FOUND), "share"))
    parts = [words for words in said if words.startswith("naive, float32, 8192")]
    shares = [float(re.findall(r"([\d.]+) %", words)[0]) for words in parts]
    assert [words.split(": ")[1].split(" ")[0] for words in parts] == ["copy", "kernel", "copy"]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert tips(breakdown.draw(breakdown_bars(FOUND), "ms")) == said, "the figures are the same, the lengths are not"


def sweep() -> list[Any]:
    speeds = {(16, 512): 100.0, (16, 1024): 300.0, (32, 512): 200.0, (32, 1024): 240.0}
    launch: dict[str, Any] = {"registers": 40, "occupancy": 0.75, "local_bytes": 0}
    return [
        made(n, label="shared_tiled", kernel="shared_tiled", config={"tile": tile}, gflops=gflops, **launch)
        for (tile, n), gflops in speeds.items()
    ]


def test_a_map_frames_the_fastest_and_has_registers_beside() -> None:
    (grid,) = config_grids(sweep(), heatmap.MAX_ROWS)
    drawn = heatmap.draw(grid)
    assert heatmap.heading(grid) == "shared_tiled, float32, by tile" and drawn.count('class="frame"') == 2
    assert tips(drawn)[0] == "16 at 512: 100 GFLOPS, 50.0 % of the fastest config there"
    assert drawn.count(">40</text>") == 2 and drawn.count(">75.0 %</text>") == 2
    assert heatmap.beside(made(local_bytes=64, registers=255, occupancy=None)) == ("255 + spills", "–")


def test_a_kernel_looks_the_same_everywhere_and_no_two_alike() -> None:
    mixed = {
        name: style_of(look)
        for name, look in looks([("mine", None), *((name, name) for name in KERNEL_NAMES), ("other", None)]).items()
    }
    assert all(mixed[name] == KERNEL_STYLES[name] for name in KERNEL_NAMES)
    assert len(set(mixed.values())) == len(KERNEL_NAMES) + 2


def test_words_in_a_drawing_are_escaped() -> None:
    nasty = [
        made(512, label='<b>"x"', config={"tile": tile}, gflops=1.0, h2d_ms=1.0, d2h_ms=1.0, kernel_ms=1.0)
        for tile in (8, 16)
    ]
    for drawn in (
        breakdown.draw(breakdown_bars(nasty), "share"),
        *map(heatmap.draw, config_grids(nasty, heatmap.MAX_ROWS)),
    ):
        assert "<b>" not in drawn and "&lt;b&gt;" in drawn


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_steps_along_a_scale_are_even_few_and_within(lo: float, span: float) -> None:
    hi = lo + span
    assume(span > 1e-9 * abs(lo))
    steps = even_steps(lo, hi)
    assert even_steps(lo, lo) == [lo]  # all cases as fast as before, to the last bit
    assert 1 <= len(steps) <= 7 and all(lo - span * 1e-6 <= step <= hi + span * 1e-6 for step in steps)


@given(st.floats(1e-3, 1e6), st.floats(2.1, 1e6))
def test_ticks_of_a_logarithmic_scale_are_within(lo: float, ratio: float) -> None:
    assert powers_of_two(lo, lo * ratio) and all(lo <= tick <= lo * ratio for tick in powers_of_two(lo, lo * ratio))
    assert all(lo <= tick <= lo * ratio for tick in decades(lo, lo * ratio))
