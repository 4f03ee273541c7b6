"""The overview, the list of jobs and one job, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from jobs.fleet.workers import Telemetry
from jobs.models import Progress, new_id
from jobs.redis.embedded import EmbeddedServer
from service.dashboard.words import duration, figure, size
from tests.integration.api.test_jobs import PRODUCT
from tests.support.http.pages import assert_no_dead_links, get
from tools.harness.api import FAKE_TTL_S, Api, running_api, until, worker_info


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(valkey, f"{new_id('pages')}:", tmp_path_factory.mktemp("pages")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(api: Api) -> Iterator[httpx.Client]:
    with api.client() as client:
        yield client


def submit(client: httpx.Client, kernel: str = "cpu_blas") -> str:
    body = {"a": [[1, 2]], "b": [[3], [4]], "kernel": kernel}
    reply = client.post("/v1/matmul", json=body, headers={"prefer": "respond-async"})
    return str(reply.json()["job"]["id"])


def test_the_overview_shows_workers_queues_and_last_jobs(api: Api, browser: httpx.Client) -> None:
    job_id = submit(browser)
    page = get(browser, "/")
    assert f"/ui/jobs/{job_id}" in page.links
    assert "Products waiting" in page.text and "cpu_blas" in page.text
    assert_no_dead_links(browser, page)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/ui/operations", "Operations"),
        ("/ui/dead-letters", "Jobs"),
        ("/ui/pinned", "Jobs"),
        ("/ui/devices/history", "Devices"),
        ("/ui/published/h200_quick/report", "Published"),
    ],
)
def test_the_navigation_says_where_one_is(browser: httpx.Client, path: str, place: str) -> None:
    page = get(browser, path)
    assert re.findall(r'aria-current="(?:true|page)">([^<]+)</a>', page.html.partition("</header>")[0]) == [place]
    assert {"/ui/dead-letters", "/ui/pinned"} <= set(get(browser, "/ui/jobs").links)


def test_a_worker_s_card_tells_what_it_runs_and_how_it_fares(api: Api, browser: httpx.Client) -> None:
    job_id = submit(browser)
    job = api.claim(job_id)
    api.ledger.progress(job_id, job.record.attempt, Progress(done=2, total=8, eta_s=90))
    state = Telemetry(temperature_c=61, power_w=655.5, clock_mhz=1755, throttle_reasons=("SwPowerCap",))
    played = worker_info("gpu", name="A GPU", device_class="gpu")
    api.registry.beat(played.model_copy(update={"job": job_id, "telemetry": state, "verified_today": 7}), FAKE_TTL_S)
    until(lambda: "A GPU" in get(browser, "/").text)
    page = get(browser, "/")
    api.registry.gone("gpu")
    card = re.search(r"<h3>A GPU</h3>.*?</article>", page.html, re.DOTALL)
    assert card is not None and f'href="/ui/jobs/{job_id}"' in card[0]
    words = " ".join(re.sub(r"<[^>]+>", " ", card[0]).split())
    assert "2 of 8, about 1 min 30 s to go" in words and "Verified products today 7" in words
    assert "Temperature 61 °C Power 655.5 W SM clock 1 755 MHz Clock held down by SwPowerCap" in words


def test_static_files_are_kept_for_ever_by_their_content(browser: httpx.Client) -> None:
    address = get(browser, "/").html.split('rel="stylesheet" href="')[1].split('"')[0]
    reply = browser.get(address)
    assert reply.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in reply.headers["cache-control"]
    assert browser.get(address, headers={"if-none-match": reply.headers["etag"]}).status_code == 304
    assert browser.get("/ui/static/../render.py").status_code == 404
    assert browser.get("/ui/static/nothing.css").status_code == 404


def test_filters_stand_in_the_address_and_in_the_form(api: Api, browser: httpx.Client) -> None:
    mine, other = submit(browser), submit(browser)
    browser.post(f"/v1/jobs/{other}/cancel")
    page = get(browser, f"/ui/jobs?state=cancelled&q={other}")
    assert f"/ui/jobs/{other}" in page.links and f"/ui/jobs/{mine}" not in page.links
    assert "<option selected>cancelled</option>" in page.html and f'value="{other}"' in page.html
    none = get(browser, "/ui/jobs?kind=benchmark&kernel=naive")
    assert "No job matches kind benchmark and kernel naive ." in none.text and "Clear filters" in none.text
    assert get(browser, "/ui/jobs?nonsense=1", 422).alerts == ["There is no query parameter nonsense."]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("state=nonsense", "There is no state 'nonsense'; there are queued, running, succeeded, failed, cancelled."),
        ("kind=cat", "There is no kind 'cat'; there are matmul, benchmark."),
        ("since=1y", "There is no since '1y'; there are 1h, 24h, 7d."),
    ],
)
def test_a_wrong_filter_is_answered_with_the_right_ones(browser: httpx.Client, query: str, sentence: str) -> None:
    page = get(browser, f"/ui/jobs?{query}", 422)
    assert page.alerts == [sentence] and "/ui/jobs" in page.links
    for name in ("kernel", "sort"):
        assert f"There is no {name} 'x'; there are " in get(browser, f"/ui/jobs?{name}=x", 422).alerts[0]
    assert "there are 5m, 1h, 24h" in get(browser, "/?over=1y", 422).alerts[0]


def test_columns_sort_the_newest_that_match(api: Api, browser: httpx.Client) -> None:
    quick, slow = submit(browser, "auto"), submit(browser, "auto")
    api.succeed(quick, PRODUCT)
    api.succeed(slow, PRODUCT)
    took = {job: api.ledger.get(job).record for job in (quick, slow)}
    expected = sorted(took, key=lambda job: took[job].finished_at - took[job].created_at)  # type: ignore[operator]
    page = get(browser, "/ui/jobs?state=succeeded&sort=took")
    rows = [link for link in page.links if link in {f"/ui/jobs/{job}" for job in took}]
    assert rows == [f"/ui/jobs/{job}" for job in expected]
    assert 'aria-sort="ascending"' in page.html
    assert "/ui/jobs?state=succeeded&amp;sort=-took" in page.html


def test_older_jobs_are_a_link_away(api: Api, browser: httpx.Client) -> None:
    first = submit(browser)
    for _ in range(50):
        submit(browser)
    page = get(browser, "/ui/jobs")
    assert f"/ui/jobs/{first}" not in page.links
    (older,) = (link for link in page.links if "cursor=" in link)
    assert f"/ui/jobs/{first}" in get(browser, older).links


def test_a_job_shows_its_life_and_what_can_be_done(api: Api, browser: httpx.Client) -> None:
    job_id = submit(browser)
    waiting = get(browser, f"/ui/jobs/{job_id}")
    assert f"/ui/jobs/{job_id}/cancel" in waiting.forms and "Place in the queue" in waiting.text
    reply = browser.post(f"/ui/jobs/{job_id}/cancel")
    assert (reply.status_code, reply.headers["location"]) == (303, f"/ui/jobs/{job_id}")
    cancelled = get(browser, f"/ui/jobs/{job_id}")
    assert f"/ui/jobs/{job_id}/retry" in cancelled.forms
    assert browser.post(f"/ui/jobs/{job_id}/retry").status_code == 303
    api.succeed(job_id, PRODUCT)
    done = get(browser, f"/ui/jobs/{job_id}")
    assert "Where the time went" in done.text and "Verification: passed" in done.text
    assert not [form for form in done.forms if job_id in form]
    assert f"/v1/jobs/{job_id}/product" in done.links


def test_what_is_not_there_is_a_page_that_says_so(browser: httpx.Client) -> None:
    assert get(browser, "/ui/jobs/job_0", 404).alerts == [browser.get("/v1/jobs/job_0").json()["detail"]]
    assert "There is nothing at this path" in get(browser, "/ui/nowhere", 404).alerts[0]
    page = get(browser, "/ui/jobs/%3Cscript%3E", 404)
    assert "<script>" not in page.html


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_another_site_s_page_changes_nothing(api: Api, browser: httpx.Client, headers: dict[str, str]) -> None:
    job_id = submit(browser)
    assert browser.post(f"/ui/jobs/{job_id}/cancel", headers=headers).status_code == 403
    assert api.ledger.get(job_id).record.state.value == "queued"


def test_figures_in_words() -> None:
    assert [figure(value) for value in (None, 0, 0.00012, 0.5, 1234.5, 50587.3)] == [
        "–",
        "0",
        "1.2e-04",
        "0.5",
        "1\u202f234",
        "50\u202f587",
    ]
    assert [duration(value) for value in (0.0123, 1, 61, 3725, 90_061)] == [
        "12 ms",
        "1 s",
        "1 min 1 s",
        "1 h 2 min",
        "1 d 1 h",
    ]
    assert [size(value) for value in (512, 1536, 1 << 20, 3 << 30)] == ["512 B", "1.5 KiB", "1 MiB", "3 GiB"]
