"""What goes on while its key is revoked: streams and waits end within the seconds that docs/operations.md says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

import httpx
import pytest
from pydantic import SecretStr
from starlette.requests import Request

from jobs.redis.embedded import EmbeddedServer
from service import changes
from service.http import admission, streams, waiting
from service.keys import NewKey, Role, make_key, ring
from tests.integration.api.test_jobs import SEEDED, problem, submit
from tools.harness.api import Api, running_api

PEPPER = "a pepper of more than sixteen bytes"
KEY, OTHER = (make_key(name, PEPPER.encode(), role=Role.OPERATOR) for name in ("ada", "bob"))
SOON_S, MAX_LINES = 0.05, 2000
T = TypeVar("T")
CHANGED = {  # the key's line
    "revoked": "",
    "rotated": KEY.line.replace(KEY.line.split(":")[1], "0" * 64),
    "expired": f"{KEY.line}:expires=20260101T000000Z",
    "less of a role": KEY.line.replace("operator", "reader"),
}


@dataclass
class Keyed:
    api: Api
    file: Path
    begun: Event  # a stream or a wait

    def keep(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines) + "\n")

    def client(self, key: NewKey = KEY) -> httpx.Client:
        return self.api.client(authorization=f"Bearer {key.key}")

    def during(self, work: Callable[[], T], change: Callable[[], None]) -> T:
        """Makes the change once the work has begun. What the work comes to."""
        self.begun.clear()  # requests before it may have waited, too
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(work)
            assert self.begun.wait(60)
            change()
            return result.result(60)


@pytest.fixture
def keyed(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyed]:
    class Begun(admission.Admission):
        def __init__(self, request: Request) -> None:
            super().__init__(request)
            begun.set()

    begun, file = Event(), tmp_path / "keys"
    file.write_text(f"{KEY.line}\n{OTHER.line}\n")
    for module in (streams, waiting):
        monkeypatch.setattr(module, "Admission", Begun)
    for each, name in ((admission, "ADMITTED_S"), (changes, "RECHECK_S"), (streams, "PING_S"), (ring, "RELOAD_S")):
        monkeypatch.setattr(each, name, SOON_S)
    settings = {"auth": "on", "api_keys_file": file, "api_key_pepper": SecretStr(PEPPER)}
    with running_api(valkey, key_prefix, tmp_path, **settings) as api:
        yield Keyed(api, file, begun)


def read(client: httpx.Client, job: str) -> list[str]:
    """A job's stream to its end."""
    lines = []
    with client.stream("GET", f"/v1/jobs/{job}/events") as reply:
        for line in reply.iter_lines():
            lines.append(line)
            assert len(lines) < MAX_LINES, "it goes on without a key"
    return lines


@pytest.mark.parametrize("how", CHANGED)
def test_a_stream_ends(keyed: Keyed, how: str) -> None:
    with keyed.client() as client:
        job = submit(client)
        keyed.during(lambda: read(client, job), lambda: keyed.keep(CHANGED[how], OTHER.line))
        if how != "less of a role":
            problem(client.get(f"/v1/jobs/{job}"), 401, "unauthenticated")


def test_a_stream_goes_on_while_others_are_revoked(keyed: Keyed) -> None:
    def change() -> None:
        keyed.keep(KEY.line)
        with keyed.client(OTHER) as other:
            while other.get("/v1/jobs").status_code != 401:
                pass
        assert client.post(f"/v1/jobs/{job}/cancel").is_success

    with keyed.client() as client:
        job = submit(client)
        assert "event: cancelled" in keyed.during(lambda: read(client, job), change)


@pytest.mark.parametrize("signs_out", [True, False])
def test_a_page_s_stream_ends_with_its_sign_in(keyed: Keyed, signs_out: bool) -> None:
    with keyed.client() as client, keyed.api.client() as browser, keyed.api.client() as other_tab:
        job = submit(client)
        assert browser.post("/ui/sign-in", data={"key": KEY.key, "next": "/ui/jobs"}).status_code == 303
        other_tab.cookies = browser.cookies

        def change() -> None:
            if signs_out:
                assert other_tab.post("/ui/sign-out").status_code == 303
            else:
                keyed.keep(OTHER.line)

        keyed.during(lambda: read(browser, job), change)
        problem(browser.get(f"/v1/jobs/{job}"), 401, "unauthenticated")


@pytest.mark.parametrize("is_new", [True, False])
def test_a_wait_ends(keyed: Keyed, is_new: bool) -> None:
    waits = {"prefer": "wait=50"}
    with keyed.client() as client:
        job = submit(client)

        def wait() -> httpx.Response:
            path = f"/v1/jobs/{job}"
            return client.post("/v1/matmul", json=SEEDED, headers=waits) if is_new else client.get(path, headers=waits)

        problem(keyed.during(wait, lambda: keyed.keep(OTHER.line)), 401, "unauthenticated")


def test_the_documented_seconds_are_enough() -> None:
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    found = re.search(r"waits of a revoked or expired key end within (\d+) seconds", text)
    assert found is not None
    assert float(found[1]) > admission.ADMITTED_S + changes.RECHECK_S + ring.RELOAD_S
