"""Pages where API keys are on: the sign-in, its cookie, and who sees what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

import service.keys.sessions
from jobs.models import new_id
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from service.dashboard.session import own_path
from service.keys import KeyRing, KnownKey, Role, make_key
from service.keys.sessions import COOKIE, Sessions
from tests.support.http.pages import Page, get
from tools.harness.api import Api, running_api

PEPPER = "a pepper of more than sixteen bytes"
ALICE, BOB = (make_key(name, PEPPER.encode()) for name in ("alice", "bob"))
OTIS = make_key("otis", PEPPER.encode(), role=Role.OPERATOR)
RITA = make_key("rita", PEPPER.encode(), role=Role.READER)
NUMBERS = {name: (None, value) for name, value in {"m": "3", "n": "4", "k": "5"}.items()}


@dataclass
class Guarded:
    api: Api

    @contextmanager
    def browser(self, key: str | None = None, *, sends_token: bool = True) -> Iterator[httpx.Client]:
        """Signed in by the form, where a key is given; what it sends then carries the session's token."""
        with self.api.client() as client:
            if key is not None:
                reply = client.post("/ui/sign-in", data={"key": key, "next": "/ui/jobs"})
                assert (reply.status_code, reply.headers["location"]) == (303, "/ui/jobs")
                client.headers.update({"x-csrf-token": token_of(client)} if sends_token else {})
            yield client


@pytest.fixture(scope="module")
def guarded(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("page-keys")
    keys = SecretStr(f"{ALICE.line} {BOB.line} {RITA.line} {OTIS.line}")
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
    assert set_cookie.startswith(f"{COOKIE}=") and ALICE.key not in set_cookie
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(set_cookie.split("; "))
    assert "Secure" not in set_cookie


def test_redis_keeps_no_name_of_a_session(guarded: Guarded) -> None:
    """Only its hash, and not for long."""
    with guarded.browser(ALICE.key) as alice, connect(guarded.api.settings) as redis:
        name = alice.cookies[COOKIE]
        keys = [key.decode() for key in redis.scan_iter(f"{guarded.api.settings.key_prefix}session:*")]
        assert keys and not [key for key in keys if name in key]
        kept = [redis.get(key) for key in keys]
        assert not [value for value in kept if name.encode() in value or ALICE.key.encode() in value]
        assert all(0 < redis.ttl(key) <= guarded.api.settings.session_ttl_s for key in keys)


def test_signing_out_ends_the_session_itself(guarded: Guarded) -> None:
    """Whoever copied the cookie is out as well."""
    with guarded.browser(ALICE.key) as alice, guarded.browser() as thief:
        thief.cookies.set(COOKIE, alice.cookies[COOKIE])
        assert thief.get("/v1/jobs").status_code == 200
        alice.post("/ui/sign-out")
        assert thief.get("/v1/jobs").status_code == 401
        assert thief.get("/ui/jobs").status_code == 303


def test_sessions_of_a_key_are_bounded(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ends. Those of other keys stay."""
    monkeypatch.setattr(service.keys.sessions, "MAX_SESSIONS", 3)
    ring = KeyRing(guarded.api.settings)
    alice, bob = ring.known(ALICE.key), ring.known(BOB.key)
    with connect(guarded.api.settings) as redis:
        sessions = Sessions(redis, guarded.api.settings)
        names = [sessions.begin(bob), *(sessions.begin(alice) for _ in range(5))]
        there = [sessions.key_of(name, ring) for name in names]
        assert there == [bob, None, None, alice, alice, alice]


def test_a_session_ends_with_its_key(guarded: Guarded) -> None:
    """Also where the key's id is given to another key."""
    ring = KeyRing(guarded.api.settings)
    carol = make_key("carol", PEPPER.encode())
    known = KnownKey("carol", carol.line.split(":")[1], "carol")
    with connect(guarded.api.settings) as redis:
        sessions = Sessions(redis, guarded.api.settings)
        assert sessions.key_of(sessions.begin(known), ring) is None
        alice = ring.known(ALICE.key)
        name = sessions.begin(alice)
        assert sessions.key_of(name, ring) == alice
        other = sessions.begin(replace(alice, digest=known.digest))
        assert sessions.key_of(other, ring) is None
        assert sessions.key_of("x" * 100_000, ring) is None


def test_behind_tls_the_cookie_is_bound_to_it(valkey: EmbeddedServer, tmp_path: Path) -> None:
    keys = SecretStr(ALICE.line)
    settings = {"auth": "on", "api_keys": keys, "api_key_pepper": SecretStr(PEPPER), "behind_tls": True}
    with running_api(valkey, f"{new_id('tls')}:", tmp_path, **settings) as api, api.client() as client:
        reply = client.post("/ui/sign-in", data={"key": ALICE.key})
        cookie = reply.headers["set-cookie"]
        assert cookie.startswith(f"__Host-{COOKIE}=") and "Domain" not in cookie
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
        assert reply.headers["strict-transport-security"].startswith("max-age=")
        name = cookie.partition(";")[0].partition("=")[2]
        assert client.get("/v1/jobs", headers={"cookie": f"__Host-{COOKIE}={name}"}).status_code == 200
        assert client.get("/v1/jobs", headers={"cookie": f"{COOKIE}={name}"}).status_code == 401


def test_a_wrong_key_is_told_so(guarded: Guarded) -> None:
    with guarded.browser() as client:
        page = Page(client.post("/ui/sign-in", data={"key": ALICE.key + "x"}), 401)
        assert "not known here" in page.alerts[0] and ALICE.key not in page.html
        for wrong in ("mm_nobody_nothing", ALICE.key, "x" * 5000):
            assert client.get("/ui/jobs", headers={"cookie": f"{COOKIE}={wrong}"}).status_code == 303
            assert client.get("/v1/jobs", headers={"cookie": f"{COOKIE}={wrong}"}).status_code == 401


def test_a_sign_in_is_short(guarded: Guarded) -> None:
    """Anyone may send one, so nothing of it is kept that does not belong there."""
    with guarded.browser() as client:
        flood = {"key": "x" * 100_000}
        assert client.post("/ui/sign-in", data=flood).status_code == 413
        assert client.post("/ui/sign-in", files={"key": b"x" * 100_000}).status_code == 415


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


def token_of(client: httpx.Client) -> str:
    """What the forms of the sign-in's pages send along."""
    (address,) = (form for form in get(client, "/ui/multiply").forms if form.startswith("/ui/multiply"))
    path, _, token = address.partition("?csrf=")
    assert path == "/ui/multiply" and len(token) == 32
    return token


def test_a_cookie_alone_changes_nothing(guarded: Guarded) -> None:
    """Whatever asks with it must have read a page of that very sign-in."""
    with (
        guarded.browser(ALICE.key, sends_token=False) as alice,
        guarded.browser(ALICE.key) as again,
        guarded.browser(BOB.key) as bob,
    ):
        right = token_of(alice)
        fields = {"source": "random", "m": "3", "n": "4", "k": "5"}
        for token in ("", "0" * 32, "é", token_of(bob), token_of(again)):
            assert alice.post("/ui/multiply", params={"csrf": token}, data=fields).status_code == 403
            assert alice.delete("/v1/jobs/job_1", headers=[(b"x-csrf-token", token.encode())]).status_code == 403
        assert alice.delete("/v1/jobs/job_1", headers={"x-csrf-token": right}).status_code == 404
        started = alice.post("/ui/multiply", params={"csrf": right}, files={"source": (None, "random"), **NUMBERS})
        assert started.status_code == 303
        job = started.headers["location"]
        (cancel,) = (form for form in get(alice, job).forms if form.startswith(f"{job}/cancel"))
        assert alice.post(cancel).status_code == 303
        many = get(alice, f"/ui/jobs/many?action=retry&job={job.rpartition('/')[2]}")
        (form,) = (form for form in many.forms if form.startswith("/ui/jobs/many"))
        assert form.endswith(f"?csrf={right}")
        assert alice.post("/ui/jobs/many", data={"action": "retry"}).status_code == 403
        for path in ("/ui/benchmarks/new", "/ui/devices"):
            assert f"/ui/benchmarks?csrf={right}" in get(alice, path).forms


def test_an_operator_cancels_on_the_page_of_another_s_job(guarded: Guarded) -> None:
    """What came of it the page does not show."""
    with guarded.browser(ALICE.key) as alice, guarded.browser(OTIS.key) as otis:
        body = {"a": [[1]], "b": [[2]]}
        waiting, done = (
            alice.post("/v1/matmul", json=body, headers={"prefer": "respond-async"}).json()["job"]["id"] for _ in "ab"
        )
        guarded.api.succeed(done, np.ones((1, 1)))
        seen = get(otis, f"/ui/jobs/{done}")
        assert f"/v1/jobs/{done}/product" not in seen.links and "belongs to another key" in seen.text
        assert f"/v1/jobs/{done}/product" in get(alice, f"/ui/jobs/{done}").links
        (cancel,) = (form for form in get(otis, f"/ui/jobs/{waiting}").forms if form.startswith("/ui/jobs/"))
        assert otis.post(cancel).status_code == 303
        assert guarded.api.ledger.get(waiting).record.state.value == "cancelled"
        assert otis.post(f"/ui/jobs/{waiting}/retry").status_code == 404
        assert not [form for form in get(otis, f"/ui/jobs/{waiting}").forms if form.startswith("/ui/jobs/")]


def test_a_reader_s_pages_offer_nothing_that_it_cannot_do(guarded: Guarded) -> None:
    with guarded.browser(RITA.key) as rita:
        for path in ("/", "/ui/jobs", "/ui/devices", "/ui/benchmarks/new", "/ui/multiply"):
            page = get(rita, path)
            assert "/ui/multiply" not in page.links and "/ui/jobs/many" not in page.forms
            assert "Start</button>" not in page.html and "Multiply</button>" not in page.html
        assert rita.post(f"/ui/multiply?csrf={token_of(rita)}").status_code == 403
        assert rita.post("/ui/sign-out").headers["location"] == "/ui/sign-in"


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
        ("http://[:]", "/"),
        ("", "/"),
    ],
)
def test_the_sign_in_leads_nowhere_else(wanted: str, path: str) -> None:
    assert own_path(wanted) == path


def test_only_an_operator_pauses_and_drains(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    pause = {"what": "pause", "name": "cpu"}
    with guarded.browser(ALICE.key) as alice, guarded.browser(OTIS.key) as otis:
        assert "no operator's" in get(alice, "/ui/operations").text
        assert "/ui/operations" not in {form.partition("?")[0] for form in get(alice, "/ui/operations").forms}
        assert alice.post("/ui/operations", data=pause).status_code == 403
        for path in ("queues/cpu/pause", "queues/pause", "workers/played/drain", "workers/played/resume"):
            assert alice.post(f"/v1/{path}").status_code == 403
        queues = alice.get("/v1/queues").json()
        assert not queues["paused"] and not any(queue["paused"] for queue in queues["queues"])
        with caplog.at_level("INFO", logger="matmul.audit"):
            assert otis.post("/ui/operations", data=pause).status_code == 303
            assert otis.post("/v1/queues/cpu/resume").status_code == 200
        lines = [record.getMessage() for record in caplog.records if record.name == "matmul.audit"]
        assert any('"action":"steer"' in line and "#pause-cpu" in line and "operator" in line for line in lines)
        assert any('"action":"resume_queue"' in line and '"object":"cpu"' in line for line in lines)
    with guarded.browser(OTIS.key, sends_token=False) as forged:
        assert forged.post("/ui/operations", data=pause).status_code == 403
