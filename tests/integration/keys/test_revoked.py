"""What goes on while its key is revoked: streams and waits end within the seconds that docs/operations.md says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from jobs.redis.embedded import EmbeddedServer
from service import changes
from service.http import admission
from service.keys import NewKey, Role, make_key, ring
from tests.integration.api.test_jobs import SEEDED, problem, submit
from tools.harness.api import Api, running_api

PEPPER = "a pepper of more than sixteen bytes"
KEY, OTHER = (make_key(name, PEPPER.encode(), role=Role.OPERATOR) for name in ("ada", "bob"))
SOON_S = 0.05


@dataclass
class Keyed:
    api: Api
    file: Path

    def keep(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines) + "\n")

    def client(self, key: NewKey = KEY) -> httpx.Client:
        return self.api.client(authorization=f"Bearer {key.key}")


@pytest.fixture
def keyed(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyed]:
    for module, name in ((admission, "ADMITTED_S"), (changes, "RECHECK_S"), (changes, "POLL_S"), (ring, "RELOAD_S")):
        monkeypatch.setattr(module, name, SOON_S)
    file = tmp_path / "keys"
    file.write_text(f"{KEY.line}\n{OTHER.line}\n")
    settings = {"auth": "on", "api_keys_file": file, "api_key_pepper": SecretStr(PEPPER)}
    with running_api(valkey, key_prefix, tmp_path, **settings) as api:
        yield Keyed(api, file)


def expired(line: str) -> str:
    ago = datetime.now(UTC) - timedelta(hours=1)
    return f"{line.replace(':role=operator', '')}:expires={ago:%Y%m%dT%H%M%SZ}"


def lines_left(client: httpx.Client, path: str, started: threading.Event) -> list[str]:
    """Reads a stream to its end."""
    lines = []
    with client.stream("GET", path) as reply:
        for line in reply.iter_lines():
            lines.append(line)
            started.set()
    return lines


REVOCATIONS: dict[str, Callable[[str], str]] = {
    "revoked": lambda _: "",
    "rotated": lambda line: line.replace(line.split(":")[1], "0" * 64),
    "expired": expired,
    "less of a role": lambda line: line.replace("operator", "reader"),
}


def during(work: Callable[[threading.Event], None], change: Callable[[], None]) -> None:
    """Calls `change` once `work`, in another thread, has set its event; waits for the end of the work."""
    started, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(started)
        except BaseException as error:
            errors.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    change()
    thread.join(60)
    assert not thread.is_alive(), "it goes on without a key"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("how", REVOCATIONS)
def test_a_stream_ends(keyed: Keyed, how: str) -> None:
    with keyed.client() as client:
        path = f"/v1/jobs/{submit(client)}/events"

        def follow(started: threading.Event) -> None:
            assert "event: succeeded" not in lines_left(client, path, started)

        during(follow, lambda: keyed.keep(REVOCATIONS[how](KEY.line), OTHER.line))
        if how != "less of a role":
            problem(client.get(path), 401, "unauthenticated")


def test_a_stream_goes_on_while_others_are_revoked(keyed: Keyed) -> None:
    with keyed.client() as client:
        job = submit(client)

        def follow(started: threading.Event) -> None:
            assert lines_left(client, f"/v1/jobs/{job}/events", started)[-3] == "event: cancelled"

        def change() -> None:
            keyed.keep(KEY.line)
            with keyed.client(OTHER) as other:
                while other.get("/v1/jobs").status_code != 401:
                    pass
            assert client.post(f"/v1/jobs/{job}/cancel").is_success

        during(follow, change)


@pytest.mark.parametrize("how", ["signed out", "key revoked"])
def test_a_page_s_stream_ends_with_its_sign_in(keyed: Keyed, how: str) -> None:
    with keyed.client() as client, keyed.api.client() as browser, keyed.api.client() as other_tab:
        job = submit(client)
        assert browser.post("/ui/sign-in", data={"key": KEY.key, "next": "/ui/jobs"}).status_code == 303
        other_tab.cookies = browser.cookies

        def follow(started: threading.Event) -> None:
            lines_left(browser, f"/v1/jobs/{job}/events", started)

        def change() -> None:
            if how == "signed out":
                assert other_tab.post("/ui/sign-out").status_code == 303
            else:
                keyed.keep(OTHER.line)

        during(follow, change)
        problem(browser.get(f"/v1/jobs/{job}"), 401, "unauthenticated")


@pytest.mark.parametrize("kind", ["of a job", "for a product"])
def test_a_wait_ends(keyed: Keyed, kind: str) -> None:
    with keyed.client() as client, keyed.client(OTHER) as other:
        job = submit(client)

        def wait(started: threading.Event) -> None:
            started.set()
            waits = {"prefer": "wait=110"}
            reply = (
                client.get(f"/v1/jobs/{job}", headers=waits)
                if kind == "of a job"
                else client.post("/v1/matmul", json=SEEDED, headers=waits)
            )
            problem(reply, 401, "unauthenticated")

        during(wait, lambda: keyed.keep(OTHER.line))
        assert other.get("/v1/jobs").is_success


def test_the_documented_seconds_are_enough() -> None:
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    found = re.search(r"waits\s+of\s+a\s+revoked\s+or\s+expired\s+key\s+end\s+within\s+(\d+)\s+seconds", text)
    assert found is not None
    assert float(found[1]) > admission.ADMITTED_S + changes.RECHECK_S + ring.RELOAD_S
