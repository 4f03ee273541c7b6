"""API keys: who may ask, whose is what, and servers that refuse to start open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import SecretStr

from jobs.errors import InvalidSettings
from jobs.models import new_id, product_id
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.settings import Settings
from service.app import create_app
from service.keys import make_key
from tests.integration.api.test_jobs import PRODUCT, SEEDED, fail, problem, submit
from tools.harness.api import Api, npy, running_api, until

PEPPER = "a pepper of more than sixteen bytes"
OWNER, OTHER, REVOKED = (make_key(name, PEPPER.encode()) for name in ("owner", "other", "revoked"))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@dataclass
class Guarded:
    """A server with keys, and where it reads them."""

    api: Api
    keys_file: Path

    @property
    def owner(self) -> httpx.Client:
        return self.api.client(**bearer(OWNER.key))


@pytest.fixture(scope="module")
def guarded(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("keys")
    keys_file = directory / "keys"
    keys_file.write_text(f"# who may ask\n{OWNER.line}\n\n{REVOKED.line}\n")
    settings = {
        "auth": "on",
        "api_keys_file": keys_file,
        "api_keys": SecretStr(OTHER.line),
        "api_key_pepper": SecretStr(PEPPER),
        "max_queued_jobs_per_key": 3,
        "store_bytes_per_key": 1 << 20,
        "unix_socket": directory / "api.sock",
    }
    with running_api(valkey, f"{new_id('keys')}:", directory, **settings) as api:
        yield Guarded(api, keys_file)


OPEN_PATHS = ["/", "/livez", "/readyz", "/docs", "/openapi.json", "/problems/shape_mismatch"]


@pytest.mark.parametrize("path", OPEN_PATHS)
def test_what_needs_no_key(guarded: Guarded, path: str) -> None:
    with guarded.api.client() as nobody:
        assert nobody.get(path).status_code == 200


def test_a_unix_socket_asks_for_keys_too(guarded: Guarded) -> None:
    path = guarded.api.settings.unix_socket
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        assert client.get("/v1/jobs").status_code == 401
        assert client.get("/v1/jobs", headers=bearer(OWNER.key)).status_code == 200


CLOSED = [
    ("POST", "/v1/matmul"),
    ("GET", "/v1/jobs"),
    *((method, "/v1/jobs/{job}") for method in ("GET", "HEAD", "DELETE")),
    ("GET", "/v1/jobs/{job}/product"),
    ("GET", "/v1/jobs/{job}/events"),
    ("POST", "/v1/jobs/{job}/cancel"),
    ("POST", "/v1/jobs/{job}/retry"),
    ("POST", "/v1/matrices"),
    *((method, "/v1/matrices/{matrix}") for method in ("GET", "HEAD", "PUT", "DELETE")),
    ("GET", "/v1/kernels"),
    ("GET", "/v1/kernels/naive"),
    ("GET", "/v1/kernels/naive/source"),
    ("GET", "/v1/leaderboard"),
    ("GET", "/v1/published"),
    ("GET", "/v1/published/t4_register_tile_2025"),
    ("GET", "/v1/devices"),
    ("GET", "/metrics"),
    ("GET", "/no/such/path"),
]
OWNED = [(method, path) for method, path in CLOSED if "{" in path and method != "PUT"]
WRONG = {
    "none": {},
    "empty": {"authorization": "Bearer"},
    "nonsense": bearer("nonsense"),
    "unknown id": bearer(OWNER.key.replace(OWNER.key.split("_")[1], "0" * 12)),
    "wrong secret": bearer(OWNER.key[:-1] + ("A" if OWNER.key[-1] != "A" else "B")),
    "other prefix": bearer("x" + OWNER.key),
    "basic": {"authorization": f"Basic {OWNER.key}"},
    "the kept hash": bearer(f"mm_{OWNER.line.split(':')[0]}_{OWNER.line.split(':')[1]}"),
}


@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize(("method", "path"), CLOSED)
def test_without_a_right_key_it_is_401(guarded: Guarded, method: str, path: str, headers: dict[str, str]) -> None:
    with guarded.api.client(**headers) as client:
        reply = client.request(method, path.format(job="job_1", matrix="0" * 64))
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    if method != "HEAD":
        problem(reply, 401, "unauthenticated")


def test_both_headers_carry_a_key(guarded: Guarded) -> None:
    for headers in (bearer(OWNER.key), {"authorization": f"bearer  {OWNER.key}"}, {"x-api-key": OWNER.key}):
        with guarded.api.client(**headers) as client:
            assert client.get("/v1/jobs").status_code == 200


@dataclass
class Belongings:
    """What the owner made: a job that succeeded and one that failed, and a matrix."""

    job: str
    failed: str
    matrix: str


@pytest.fixture(scope="module")
def belongings(guarded: Guarded) -> Belongings:
    with guarded.owner as owner:
        job, failed = submit(owner), submit(owner)
        guarded.api.succeed(job, PRODUCT)
        fail(guarded.api, failed)
        matrix = owner.post("/v1/matrices", content=npy(PRODUCT), headers={"content-type": "application/x-npy"})
        return Belongings(job, failed, matrix.json()["id"])


@pytest.mark.parametrize(("method", "path"), OWNED)
def test_to_another_key_it_is_not_there(guarded: Guarded, belongings: Belongings, method: str, path: str) -> None:
    """The same answer as for what does not exist, but for its ids."""
    there = path.format(job=belongings.job, matrix=belongings.matrix)
    nowhere = path.format(job=new_id("job"), matrix="0" * 64)
    with guarded.api.client(**bearer(OTHER.key)) as other:
        found, absent = other.request(method, there), other.request(method, nowhere)
    assert found.status_code == absent.status_code == 404
    if method != "HEAD":
        hidden = {"instance", "request_id"}
        documents = [{k: v for k, v in reply.json().items() if k not in hidden} for reply in (found, absent)]
        assert documents[0] == documents[1]
    with guarded.owner as owner:
        assert owner.get(f"/v1/jobs/{belongings.job}").status_code == 200
        assert owner.get(f"/v1/matrices/{belongings.matrix}").status_code == 200


def test_another_keys_matrix_is_no_operand(guarded: Guarded, belongings: Belongings) -> None:
    ids = (belongings.matrix, product_id(belongings.job, 1))
    with guarded.api.client(**bearer(OTHER.key)) as other:
        for matrix_id in ids:
            reply = other.post("/v1/matmul", json=SEEDED | {"a": {"matrix": matrix_id}})
            problem(reply, 404, "matrix_not_found")
        assert other.get(f"/v1/matrices/{product_id(belongings.job, 1)}").status_code == 404


def test_lists_show_ones_own(guarded: Guarded, belongings: Belongings) -> None:
    with guarded.owner as owner, guarded.api.client(**bearer(OTHER.key)) as other:
        mine = [job["id"] for job in owner.get("/v1/jobs").json()["jobs"]]
        theirs = [job["id"] for job in other.get("/v1/jobs").json()["jobs"]]
    assert {belongings.job, belongings.failed} <= set(mine)
    assert not set(mine) & set(theirs)


def test_idempotency_keys_are_ones_own(guarded: Guarded) -> None:
    headers = {"idempotency-key": "the same", "prefer": "respond-async"}
    with guarded.owner as owner, guarded.api.client(**bearer(OTHER.key)) as other:
        first = owner.post("/v1/matmul", json=SEEDED, headers=headers).json()["job"]["id"]
        second = other.post("/v1/matmul", json=SEEDED | {"verify": "off"}, headers=headers).json()["job"]["id"]
        for client, job_id in ((owner, first), (other, second)):
            assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202


def test_a_quota_of_waiting_jobs(guarded: Guarded) -> None:
    """One key's does not touch another's."""
    with guarded.owner as owner, guarded.api.client(**bearer(OTHER.key)) as other:
        waiting = [submit(owner) for _ in range(3)]
        refused = owner.post("/v1/matmul", json=SEEDED, headers={"prefer": "respond-async"})
        assert problem(refused, 429, "quota_exceeded")["retry_after_s"] == int(refused.headers["retry-after"])
        waiting.append(submit(other))
        for client, job_id in [*((owner, job) for job in waiting[:3]), (other, waiting[3])]:
            client.post(f"/v1/jobs/{job_id}/cancel")


def test_a_quota_of_bytes(guarded: Guarded) -> None:
    big = npy(np.ones((1 << 8, 1 << 10), np.float64))  # 2 MiB of the 1 that a key has
    headers = {"content-type": "application/x-npy"}
    with guarded.owner as owner:
        refused = owner.post("/v1/matrices", content=big, headers=headers)
    assert problem(refused, 503, "store_full")["detail"].startswith("This API key")
    assert refused.headers["retry-after"]


def test_a_key_can_be_revoked_while_the_server_runs(guarded: Guarded) -> None:
    with guarded.api.client(**bearer(REVOKED.key)) as client:
        assert client.get("/v1/jobs").status_code == 200
        guarded.keys_file.write_text(guarded.keys_file.read_text().replace(REVOKED.line, ""))
        until(lambda: client.get("/v1/jobs").status_code == 401)


# ---- starting ----
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0", "auth": "off"}, "Bind 127.0.0.1"),
        ({"host": "::", "auth": "off"}, "Bind 127.0.0.1"),
        ({"host": "10.0.0.1"}, "pepper"),
        ({"allowed_hosts": ("a", "*")}, "MATMUL_ALLOWED_HOSTS has '\\*'; an entry is a host name"),
        ({"host": "0.0.0.0", "api_key_pepper": PEPPER}, "service.keys new"),
        ({"auth": "on", "api_key_pepper": "short", "api_keys": "x"}, "at least 16"),
        ({"auth": "on", "api_key_pepper": PEPPER, "api_keys": "nonsense"}, "line 1"),
    ],
    ids=["open to all", "open to all by IPv6", "no pepper", "no host", "no key", "short pepper", "bad line"],
)
def test_it_is_not_made_unsafe(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        create_app(Settings(**settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0", "auth": "off"}, "Bind 127.0.0.1"),
        ({"audit_file": "/no/such/file", "api_processes": "2"}, "/no/such/file"),
    ],
    ids=["open to all", "no audit of several"],
)
def test_it_does_not_start_unsafe(settings: dict[str, str], words: str) -> None:
    """As a process; what else it does not start with: tests/unit/starting/test_programs.py."""
    own = {f"MATMUL_{name.upper()}": value for name, value in {"port": str(free_port()), **settings}.items()}
    command = [sys.executable, "-m", "service"]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_makes_a_key_that_works() -> None:
    command = [sys.executable, "-m", "service.keys", "new", "--name", "ada lovelace"]
    environment = os.environ | {"MATMUL_API_KEY_PEPPER": PEPPER}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    key, line = (text.rpartition(" ")[2] for text in done.stdout.splitlines())
    key_id, digest, name = line.split(":")
    assert key.startswith(f"mm_{key_id}_")
    assert (len(digest), name) == (64, "ada_lovelace")
    assert key not in line


# ---- without keys ----
def test_an_open_server_answers_to_its_own_name_only(quiet: httpx.Client, api: Api) -> None:
    port = api.settings.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST", "[::1]:80"):
        assert quiet.get("/v1/jobs", headers={"host": host}).status_code == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
        assert problem(quiet.get("/livez", headers={"host": host}), 403, "forbidden")["field"] == "Host"


def test_an_open_server_does_not_serve_other_sites_pages(quiet: httpx.Client, api: Api) -> None:
    for method in ("GET", "POST", "DELETE"):
        for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
            refused = quiet.request(method, "/v1/jobs/job_1", headers={"origin": origin})
            assert problem(refused, 403, "forbidden")["field"] == "Origin"
    assert quiet.get("/v1/jobs", headers={"origin": api.url}).status_code == 200


def test_every_answer_carries_the_security_headers(quiet: httpx.Client) -> None:
    for path in ("/livez", "/nope", "/docs", "/v1/jobs"):
        headers = quiet.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers
