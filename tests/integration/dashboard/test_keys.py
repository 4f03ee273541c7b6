"""Pages where API keys are on: the sign-in, its cookie, and who sees what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.dashboard.session import own_path
from service.http.security import COOKIE
from service.keys import make_key
from tests.support.http.pages import Page, get
from tools.played.api import Api, running_api

PEPPER = "a pepper of more than sixteen bytes"
ALICE, BOB = (make_key(name, PEPPER.encode()) for name in ("alice", "bob"))


@dataclass
class Guarded:
    api: Api

    @contextmanager
    def browser(self, key: str | None = None) -> Iterator[httpx.Client]:
        """Signed in by the form, where a key is given."""
        with self.api.client() as client:
            if key is not None:
                reply = client.post("/ui/sign-in", data={"key": key, "next": "/ui/jobs"})
                assert (reply.status_code, reply.headers["location"]) == (303, "/ui/jobs")
            yield client


@pytest.fixture(scope="module")
def guarded(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("page-keys")
    keys = SecretStr(f"{ALICE.line} {BOB.line}")
    settings = {"auth": "on", "api_keys": keys, "api_key_pepper": SecretStr(PEPPER)}
    with running_api(valkey, f"{new_id('pages')}:", directory, **settings) as api:
        yield Guarded(api)


def test_a_stranger_is_asked_who_they_are(guarded: Guarded) -> None:
    with guarded.browser() as nobody:
        front = get(nobody, "/")
        assert front.forms == ["/ui/sign-in"] and "A CPU" not in front.text
        reply = nobody.get("/ui/jobs?state=failed")
        assert (reply.status_code, reply.headers["location"]) == (303, "/ui/sign-in?next=%2Fui%2Fjobs%3Fstate%3Dfailed")
        assert 'value="/ui/jobs?state=failed"' in get(nobody, reply.headers["location"]).html
        assert nobody.get("/v1/jobs").status_code == 401
        stylesheet = front.html.split('rel="stylesheet" href="')[1].split('"')[0]
        assert nobody.get(stylesheet).status_code == 200


def test_a_key_signs_in_and_out(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice:
        assert "A CPU" in get(alice, "/").text
        assert alice.get("/v1/jobs").status_code == 200  # scripts of a page ask by the same cookie
        assert alice.post("/ui/sign-out").headers["location"] == "/ui/sign-in"
        assert get(alice, "/").forms == ["/ui/sign-in"]


def test_the_cookie_is_out_of_reach(guarded: Guarded) -> None:
    with guarded.browser() as client:
        set_cookie = client.post("/ui/sign-in", data={"key": ALICE.key}).headers["set-cookie"]
    assert set_cookie.startswith(f"{COOKIE}={ALICE.key};")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(set_cookie.split("; "))


def test_a_wrong_key_is_told_so(guarded: Guarded) -> None:
    with guarded.browser() as client:
        page = Page(client.post("/ui/sign-in", data={"key": ALICE.key + "x"}), 401)
        assert "not known here" in page.alerts[0] and ALICE.key not in page.html
        client.cookies.set(COOKIE, "mm_nobody_nothing")
        assert client.get("/ui/jobs").status_code == 303
        assert client.get("/v1/jobs").status_code == 401


def test_nobody_sees_another_s_jobs(guarded: Guarded) -> None:
    with guarded.browser(ALICE.key) as alice, guarded.browser(BOB.key) as bob:
        body = {"a": [[1]], "b": [[2]]}
        job_id = alice.post("/v1/matmul", json=body, headers={"prefer": "respond-async"}).json()["job"]["id"]
        assert job_id in get(alice, "/ui/jobs").html
        for path in ("/", "/ui/jobs", f"/ui/jobs?q={job_id[4:]}"):
            assert f"/ui/jobs/{job_id}" not in get(bob, path).links
        get(bob, f"/ui/jobs/{job_id}", 404)
        assert bob.post(f"/ui/jobs/{job_id}/cancel").status_code == 404
        assert guarded.api.ledger.get(job_id).record.state.value == "queued"


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
)
def test_another_site_s_page_asks_for_nothing_in_one_s_name(guarded: Guarded, headers: dict[str, str]) -> None:
    with guarded.browser(ALICE.key) as alice:
        for path in ("/ui/jobs", "/v1/jobs"):
            assert alice.get(path, headers=headers).status_code == 403
        assert alice.get("/v1/jobs", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        ("/ui/jobs?q=1", "/ui/jobs?q=1"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_the_sign_in_leads_nowhere_else(wanted: str, path: str) -> None:
    assert own_path(wanted) == path
