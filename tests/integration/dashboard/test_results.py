"""The page of a benchmark's results, and those of published ones. The test plays the worker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from analysis.plots.by_name import PLOTS, available_of
from analysis.results import Results, measurements
from jobs.models import Job, JobError
from kernels.published import PUBLISHED
from service.dashboard.benchmarks import results as results_page
from service.dashboard.charts.tables import tables
from tests.integration.api.test_benchmark_results import done, new
from tests.integration.api.test_jobs import submit
from tests.integration.dashboard.test_keys import ALICE, BOB, Guarded, guarded
from tests.support.http.pages import Page, assert_no_dead_links, get
from tests.support.recorded import recorded_results
from tools.harness.api import Api
from tools.harness.benchmarks import case_record, cases_of, find, finish, measure

__all__ = ["guarded"]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Results]:
    """Runs on an H200."""
    return {name: recorded_results(name) for name in ("ladder", "quick")}


def at(job_id: str, query: str = "") -> str:
    return f"/ui/benchmarks/{job_id}{query}"


def rows(page: Page) -> list[list[str]]:
    """Cells of the table of cases."""
    table = page.html.split('<h2 id="cases">')[1].split("<tbody>")[1].split("</tbody>")[0]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in found]


# ---- a benchmark's ----
def test_a_finished_benchmark(browser: httpx.Client, finished: str) -> None:
    page = get(browser, at(finished))
    assert "State succeeded Steps 3 of 3 Results complete Device A CPU" in page.text
    assert page.images == [f"/v1/benchmarks/{finished}/plots/gflops?format=svg&v=3-succeeded"]  # without scripts
    assert "GFLOPS, float32, by N Kernel 64 128 256 cpu_blas 10 10 10" in page.text
    assert [row[:7] for row in rows(page)] == [
        ["cpu_blas", "–", "float32", str(n), "ok", "10", "baseline"] for n in (64, 128, 256)
    ]
    for form in ("results?format=json", "results?format=csv", "report?format=html", "report?format=markdown"):
        assert f"/v1/benchmarks/{finished}/{form}" in page.links
    assert {f"/ui/compare?before={finished}", f"/ui/benchmarks/new?clone={finished}"} <= set(page.links)
    assert "versions.numpy" in page.text and "<progress" not in page.html
    assert_no_dead_links(browser, page)


def test_plots_are_tabs_in_the_address(browser: httpx.Client, finished: str) -> None:
    page = get(browser, at(finished, "?plot=time"))
    assert page.images == [f"/v1/benchmarks/{finished}/plots/time?format=svg&v=3-succeeded"]
    assert "Kernel time, ms, float32, by N" in page.text
    nothing = get(browser, at(finished, "?plot=roofline"))
    assert not nothing.images and "no data for the plot roofline" in nothing.text
    assert "There is no plot of that name" in get(browser, at(finished, "?plot=pie"), 404).alerts[0]
    assert "no query parameter shape" in get(browser, at(finished, "?shape=round"), 422).alerts[0]


def test_before_during_and_after(api: Api, browser: httpx.Client) -> None:
    job_id = new(browser)
    queued = get(browser, at(job_id))
    assert "not complete" in queued.text and not queued.images and "None has been measured." in queued.text
    measure(api, job_id, upto=2)
    running = get(browser, at(job_id))
    assert "Steps 2 of 3" in running.text and '<progress value="2" max="3"' in running.html
    assert len(rows(running)) == 2
    browser.post(f"/v1/jobs/{job_id}/cancel")
    cancelled = get(browser, at(job_id))
    assert "State cancelled" in cancelled.text and "What was measured by then stands here." in cancelled.text
    for page in (queued, running, cancelled):
        assert_no_dead_links(browser, page)


def test_a_failed_benchmark_says_why(api: Api, browser: httpx.Client) -> None:
    job = measure(api, new(browser), upto=1)
    api.ledger.fail(job.id, job.record.attempt, JobError(type="device_fault", detail="It <b>broke</b>."))
    page = get(browser, at(job.id))
    assert "It &lt;b&gt;broke&lt;/b&gt;." in page.html and len(rows(page)) == 1


def mixed(api: Api, browser: httpx.Client) -> Job:
    """Six cases, one of them wrong, the slower the later."""
    job = api.claim(new(browser, dtypes=["float32", "float64"]))
    cases = cases_of(job)
    speeds = [case_record(case, gflops=60.0 - 10 * place) for place, case in enumerate(cases[:5])]
    find(api, job, [*speeds, case_record(cases[5], status="incorrect", reason="Not <right>.")], len(cases))
    finish(api, job)
    return job


def test_filters_and_orders_are_in_the_address(api: Api, browser: httpx.Client) -> None:
    job_id = mixed(api, browser).id
    assert [row[5] for row in rows(get(browser, at(job_id, "?sort=gflops")))] == ["60", "50", "40", "30", "20", "–"]
    slowest = get(browser, at(job_id, "?sort=kernel_ms&dtype=float64"))
    assert [row[3] for row in rows(slowest)] == ["64", "128", "256"]
    assert 'aria-sort="ascending"' in slowest.html and "3 of 6 cases" in slowest.text
    (wrong,) = rows(get(browser, at(job_id, "?status=incorrect")))
    assert wrong[4] == "incorrect Not &lt;right&gt;."
    assert rows(get(browser, at(job_id, "?kernel=naive"))) == [["None."]]
    kept = next(link for link in slowest.links if "sort=gflops" in link)
    assert parse_qs(urlsplit(kept).query) == {"sort": ["gflops"], "dtype": ["float64"]}
    assert_no_dead_links(browser, slowest)


def test_many_cases_come_by_pages(api: Api, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_page, "PER_PAGE", 2)
    job_id = mixed(api, browser).id
    page = get(browser, at(job_id, "?page=2&dtype=float32"))
    assert [row[3] for row in rows(page)] == ["256"]
    assert "Page 2 of 2." in page.text
    assert rows(get(browser, at(job_id, "?page=9"))) == [["None."]]


def test_a_recorded_run_with_everything(
    browser: httpx.Client, finished: str, recorded: dict[str, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "results_of", lambda context, job: recorded["ladder"])
    for name in available_of(measurements(recorded["ladder"])):
        page = get(browser, at(finished, f"?plot={name}"))
        assert f">{PLOTS[name].title}</a>" in page.html
        assert page.images or page.html.count('<svg class="drawn"') > 0
    assert "NVIDIA H200" in page.text and "1 case changed between rounds" in page.text
    (first,) = (
        row for row in rows(page) if row[:2] == ["register_tiled_rows", rows(page)[5][1]] and row[2] == "float32"
    )
    case = next(one for one in recorded["ladder"].records if one.kernel == "register_tiled_rows")
    assert case.fraction_of_baseline is not None
    assert first[6].startswith(f"{100 * case.fraction_of_baseline.value:.1f} % (")
    assert first[11] == str(case.launch.registers)


def test_a_share_of_a_disturbed_baseline_says_so(
    browser: httpx.Client, finished: str, recorded: dict[str, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded["quick"]
    own = next(case for case in run.records if case.fraction_of_baseline and case.case != case.baseline)
    records = [
        case.model_copy(update={"contended": True}) if case.case == own.baseline else case for case in run.records
    ]
    disturbed = run.model_copy(update={"records": tuple(records)})
    for results, says_so in ((run, False), (disturbed, True)):
        monkeypatch.setattr(results_page, "results_of", lambda context, job, results=results: results)
        shares = [row[6] for row in rows(get(browser, at(finished))) if row[6].endswith("baseline contended")]
        assert bool(shares) == says_so


def test_every_column_of_the_cases_has_its_heading(browser: httpx.Client, finished: str) -> None:
    page = get(browser, at(finished))
    table = page.html.partition('id="cases"')[2].partition("</table>")[0]
    head, _, body = table.partition("</thead>")
    (first, *_) = body.split("</tr>")
    assert head.count("<th scope") == first.count("<td") + first.count("<th scope") > 10
    assert "Worst row" in head


def test_a_product_is_no_benchmark(browser: httpx.Client) -> None:
    product = submit(browser)
    assert "is a product, not a benchmark" in get(browser, at(product), 404).alerts[0]
    get(browser, at("job_1"), 404)


@pytest.mark.parametrize("run", ["ladder", "quick"])
def test_every_plot_has_its_figures_as_tables(recorded: dict[str, Results], run: str) -> None:
    found = measurements(recorded[run])
    for name in PLOTS:
        shown = tables(name, found)
        assert all(len(row) == len(table.head) for table in shown for row in table.rows)
        if name in available_of(found):
            assert any(cell != "–" for table in shown for row in table.rows for cell in row[1:]), name
    (roofline,) = tables("roofline", found)
    assert {row[0].split(",")[0] for row in roofline.rows} <= {one.label for one in found}


def test_nobody_sees_anothers_results(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice, guarded.browser(BOB.key) as bob, guarded.browser() as nobody:
        mine = done(guarded.api, alice)
        page = get(alice, at(mine))
        assert_no_dead_links(alice, page)
        get(bob, at(mine), 404)
        assert bob.get(page.images[0]).status_code == 404
        assert nobody.get(at(mine)).headers["location"].startswith("/ui/sign-in")


# ---- published ones ----
def test_published_results(browser: httpx.Client) -> None:
    page = get(browser, "/ui/published")
    for name, publication in PUBLISHED.items():
        assert f"/ui/published/{name}" in page.links
        one = get(browser, f"/ui/published/{name}")
        assert publication.title in one.text and f"{len(publication.records)} records" in one.text
        assert (publication.citation.title or "") in one.text
    assert_no_dead_links(browser, get(browser, "/ui/published/h200_quick"))
    get(browser, "/ui/published/no_such", 404)


def test_a_published_table_says_what_its_source_says(browser: httpx.Client) -> None:
    found: Any = next(one for one in PUBLISHED.values() if one.report == "000")
    page = get(browser, f"/ui/published/{found.name}")
    for record in found.records[:20]:
        assert " ".join(record.label.split()) in page.text and " ".join(record.section.split()) in page.text
