"""The page that holds benchmarks against a first one."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from analysis.results import Results
from jobs.models import Job
from kernels.published import PUBLISHED
from service.benchmarks.replies import results_of
from service.context import Context
from service.dashboard.benchmarks import compare as compare_page
from tests.integration.api.test_benchmark_results import done, new
from tests.integration.api.test_jobs import submit
from tests.integration.dashboard.test_keys import ALICE, BOB, Guarded, guarded
from tests.support.http.pages import Page, assert_no_dead_links, get
from tools.harness.api import Api
from tools.harness.benchmarks import case_record, cases_of, find, measure

__all__ = ["guarded"]


def against(before: str, after: str, **more: str) -> str:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return f"/ui/compare?before={before}&after={after}{query}"


def verdicts(page: Page) -> list[str]:
    """Of the cases that are shown."""
    return re.findall(r"<strong>(\w+)</strong>", page.html)


def test_two_benchmarks_case_by_case(api: Api, browser: httpx.Client) -> None:
    before, after = done(api, browser), done(api, browser, gflops=12.0)
    page = get(browser, against(before, after))
    assert "faster 3 slower 0 same 0 ambiguous 0 not comparable 0 unusable 0" in page.text
    assert verdicts(page) == ["faster"] * 3
    assert "Verdict Of 3 cases that both have: faster in 3. Before:" in page.text
    told = browser.get(f"/v1/benchmarks/{after}/results?compare={before}").json()
    assert all(case["why"] in page.text for case in told["cases"])
    assert page.text.count(" to 1.237 10 12 In time") == 3
    assert "No difference is known of." in page.text
    assert_no_dead_links(browser, page)
    swapped = get(browser, next(link for link in page.links if link == against(after, before)))
    assert verdicts(swapped) == ["slower"] * 3


def test_the_view_is_in_the_address(api: Api, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = done(api, browser), done(api, browser, gflops=12.0)
    assert verdicts(get(browser, against(before, after, verdict="slower"))) == []
    monkeypatch.setattr(compare_page, "PER_PAGE", 2)
    second = get(browser, against(before, after, verdict="faster", page="2"))
    assert len(verdicts(second)) == 1 and "Page 2 of 2." in second.text
    assert against(before, after, verdict="faster", page="1") + "#cases" in second.links
    get(browser, against(before, after, verdict="better"), 422)


def test_what_only_one_has_and_what_is_not_whole(api: Api, browser: httpx.Client) -> None:
    before = done(api, browser, shapes=[64, {"m": 8, "n": 16, "k": 32}])
    after = measure(api, new(browser, shapes=[64, 512])).id
    page = get(browser, against(before, after))
    assert "Only before 1 cases cpu_blas, float32, 8×16×32" in page.text
    assert "Only after 1 cases cpu_blas, float32, 512" in page.text
    assert "At least one run is not complete" in page.text and len(verdicts(page)) == 1


def test_two_are_chosen_from_a_list(api: Api, browser: httpx.Client) -> None:
    first, title = done(api, browser), "A <b>title</b>"
    second = done(api, browser, title=title)
    product = submit(browser)
    page = get(browser, f"/ui/compare?before={second}")
    assert page.html.count(f'value="{first}"') == 2 and page.html.count(f'value="{second}" selected') == 1
    assert product not in page.html and title not in page.html and "A &lt;b&gt;title&lt;/b&gt;" in page.html
    assert "Verdicts" not in page.text
    assert_no_dead_links(browser, page)
    get(browser, f"/ui/compare?before={second}&after=")  # as the form sends it
    assert "is a product" in get(browser, against(first, product), 404).alerts[0]
    get(browser, against(first, "job_1"), 404)


def test_one_past_the_list_can_be_chosen_by_its_address(
    api: Api, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = done(api, browser), done(api, browser)
    monkeypatch.setattr(compare_page, "LAST", 1)
    page = get(browser, against(first, second))
    assert page.html.count(f'value="{first}" selected') == 1 and page.html.count("</option>") == 3 * (
        3 + len(PUBLISHED)
    )  # one select more, for another


def marks(page: Page) -> list[str]:
    """What the marks of the drawing say."""
    return [unescape(found) for found in re.findall(r'data-tip="([^"]*)"', page.html)]


def test_several_against_a_first_one(api: Api, browser: httpx.Client) -> None:
    before, second, third = (done(api, browser, gflops=gflops) for gflops in (10.0, 12.0, 8.0))
    page = get(browser, against(before, second) + f"&after={third}&after=")
    assert "faster 3 slower 0" in page.text and "faster 0 slower 3" in page.text
    assert verdicts(page) == ["faster", "slower"] * 3
    assert "float32 64 After 1 faster 1.2" in page.text and "float32 64 After 2 slower 0.8" in page.text
    only = get(browser, against(before, second, verdict="slower") + f"&after={third}")
    assert verdicts(only) == ["slower"] * 3
    assert_no_dead_links(browser, page)
    many = "".join(f"&after=job_{number}" for number in range(7))
    assert "At most 6 runs" in get(browser, f"/ui/compare?before={before}{many}", 422).alerts[0]


def test_what_is_not_alike_is_told_of_every_run(
    api: Api, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, second, third = (done(api, browser) for _ in range(3))
    versions = {before: "1.0", second: "2.0", third: "1.0"}

    def changed(context: Context, job: Job) -> Results:
        return results_of(context, job).model_copy(update={"environment": {"versions": {"numpy": versions[job.id]}}})

    monkeypatch.setattr(compare_page, "results_of", changed)
    page = get(browser, against(before, second) + f"&after={third}")
    assert "Name Before After 1 After 2 versions.numpy 1.0 2.0 1.0" in page.text


def test_ratios_are_drawn_with_their_intervals(api: Api, browser: httpx.Client) -> None:
    before, after = done(api, browser), done(api, browser, gflops=12.0)
    told = browser.get(f"/v1/benchmarks/{after}/results?compare={before}").json()["cases"]
    said = marks(get(browser, against(before, after)))
    assert len(said) == len(told) == 3
    assert said[0] == "After; cpu_blas, float32, 64: 1.2 times as fast (1.164 to 1.237), faster"
    assert said == [words.replace(" 64:", f" {case['n']}:") for words, case in zip(said[:1] * 3, told, strict=True)]


def test_a_run_without_figures_has_no_ratio_to_draw(api: Api, browser: httpx.Client) -> None:
    before, job = done(api, browser, shapes=[64]), api.claim(new(browser, shapes=[64]))
    find(api, job, [case_record(case, status="incorrect") for case in cases_of(job)], 1)
    page = get(browser, against(before, job.id))
    assert verdicts(page) == ["unusable"] and not marks(page)


def test_nobody_compares_with_anothers(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice, guarded.browser(BOB.key) as bob:
        mine, other = done(guarded.api, alice), done(guarded.api, bob)
        assert other not in get(alice, "/ui/compare").html
        for address in (against(mine, other), against(other, mine), against(other, other)):
            get(alice, address, 404)
        assert len(verdicts(get(alice, against(mine, mine)))) == 3


def test_an_empty_list_leads_on(guarded: Guarded) -> None:
    with guarded.api.client(authorization=f"Bearer {BOB.key}") as bob:
        page = get(bob, "/ui/compare")
    assert "/ui/benchmarks/new" in page.links
