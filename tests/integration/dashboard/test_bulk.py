"""Many jobs cancelled or retried at once: what is counted, what is done, and to whose jobs."""

from __future__ import annotations

import re

import httpx
import pytest

from jobs.ledger.interface import JobFilter
from service.dashboard.jobs.bulk import LOOK_JOBS
from tests.integration.dashboard.test_keys import ALICE, BOB, Guarded, guarded
from tests.integration.dashboard.test_pages import submit
from tests.support.http.pages import Page, get
from tests.support.ledger.many_jobs import fill
from tools.harness.api import Api

__all__ = ["guarded"]

MANY = "/ui/jobs/many"


@pytest.fixture
def browser(quiet: httpx.Client) -> httpx.Client:
    return quiet


def hidden(page: Page) -> dict[str, list[str]]:
    """What the page's form sends, as it stands."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.html):
        found.setdefault(name, []).append(value)
    return found


def states(api: Api, *job_ids: str) -> list[str]:
    return [api.ledger.get(job_id).record.state.value for job_id in job_ids]


def told(client: httpx.Client, reply: httpx.Response) -> tuple[str, Page]:
    """What the list says after it, and the list."""
    assert reply.status_code == 303, reply.text[-2000:]
    page = get(client, reply.headers["location"])
    return re.findall(r'<p class="note">([^<]*)</p>', page.html)[0], page


def test_picked_jobs_are_counted_then_cancelled_then_retried(api: Api, browser: httpx.Client) -> None:
    one, two, other = (submit(browser) for _ in range(3))
    browser.post(f"/v1/jobs/{two}/cancel")
    page = get(browser, f"{MANY}?action=cancel&job={one}&job={two}&job=job_nowhere&q=job")
    assert "Cancel 1 job" in page.text and "2 of the selected jobs are left out" in page.text
    assert hidden(page) == {"action": ["cancel"], "scope": ["picked"], "q": ["job"], "job": [one]}
    assert states(api, one, two, other) == ["queued", "cancelled", "queued"]
    words, listed = told(browser, browser.post(MANY, data=hidden(page)))
    assert words == "1 job cancelled." and 'value="job"' in listed.html
    assert states(api, one, two, other) == ["cancelled", "cancelled", "queued"]
    again = get(browser, f"{MANY}?action=retry&job={one}&job={two}")
    assert told(browser, browser.post(MANY, data=hidden(again)))[0] == "2 jobs queued again."
    assert states(api, one, two) == ["queued", "queued"]


def test_a_time_without_its_zone_is_refused(browser: httpx.Client) -> None:
    submit(browser)
    asked = {"action": "cancel", "scope": "all", "until": "2026-01-02T03:04:05"}
    assert browser.get(MANY, params=asked).status_code == 422
    assert browser.post(MANY, data=asked).status_code == 422
    assert browser.get(MANY, params=asked | {"until": "2026-01-02T03:04:05Z"}).status_code == 200


def test_jobs_that_moved_on_meanwhile_are_counted(api: Api, browser: httpx.Client) -> None:
    one, two = submit(browser), submit(browser)
    form = hidden(get(browser, f"{MANY}?action=cancel&job={one}&job={two}"))
    api.ledger.cancel(one)
    words, _ = told(browser, browser.post(MANY, data=form))
    assert words == "1 job cancelled. 1 left as it was: already ended, gone, or without its operands."


def test_a_retry_without_operands_leaves_the_job(api: Api, browser: httpx.Client) -> None:
    job_id = submit(browser)
    browser.post(f"/v1/jobs/{job_id}/cancel")
    for operand in api.ledger.get(job_id).record.operands:
        assert operand.matrix is not None
        api.store.delete(operand.matrix, owner="anonymous")
    words, _ = told(browser, browser.post(MANY, data={"action": "retry", "job": job_id}))
    assert words.startswith("0 jobs queued again. 1 left")


def test_all_that_match_are_those_that_were_counted(api: Api, browser: httpx.Client) -> None:
    """Not those that came after."""
    fill(api, 3, kernel="naive")
    page = get(browser, f"{MANY}?action=cancel&scope=all&kernel=naive&state=queued")
    assert "Cancel 3 jobs" in page.text and "kernel naive" in page.text
    fill(api, 1, kernel="naive")
    other = submit(browser)
    words, _ = told(browser, browser.post(MANY, data=hidden(page)))
    assert words == "3 jobs cancelled."
    left = api.ledger.list(JobFilter(kernel="naive"), limit=10).jobs
    assert [job.record.state.value for job in left] == ["queued", "cancelled", "cancelled", "cancelled"]
    assert states(api, other) == ["queued"]


def test_none_that_match(browser: httpx.Client) -> None:
    page = get(browser, f"{MANY}?action=retry&scope=all&state=queued")
    assert page.alerts == ["None of them can be retried: only failed and cancelled jobs can."]
    assert not page.forms
    get(browser, f"{MANY}?action=destroy&scope=all", 422)


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_another_sites_form_changes_nothing(api: Api, browser: httpx.Client, headers: dict[str, str]) -> None:
    job_id = submit(browser)
    assert browser.post(MANY, data={"action": "cancel", "scope": "all"}, headers=headers).status_code == 403
    assert states(api, job_id) == ["queued"]


def test_nobody_changes_anothers(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice, guarded.browser(BOB.key) as bob:
        body = {"a": [[1]], "b": [[2]]}
        job_id = alice.post("/v1/matmul", json=body, headers={"prefer": "respond-async"}).json()["job"]["id"]
        for scope in ("picked", "all"):
            assert "None of them" in get(bob, f"{MANY}?action=cancel&scope={scope}&job={job_id}").alerts[0]
            told(bob, bob.post(MANY, data={"action": "cancel", "scope": scope, "job": job_id}))
        assert states(guarded.api, job_id) == ["queued"]
        told(alice, alice.post(MANY, data={"action": "cancel", "scope": "all"}))
        assert states(guarded.api, job_id) == ["cancelled"]


def test_more_than_one_look_finds_are_cancelled(api: Api, browser: httpx.Client) -> None:
    mine = fill(api, LOOK_JOBS + 10, kernel="cublas")
    page = get(browser, f"{MANY}?action=cancel&scope=all&kernel=cublas")
    words, _ = told(browser, browser.post(MANY, data=hidden(page)))
    assert words == f"{len(mine)} jobs cancelled."
    assert set(states(api, *mine)) == {"cancelled"}
