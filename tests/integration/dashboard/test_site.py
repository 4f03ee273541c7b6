"""The documentation site, served by the API that finds one."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.support.http.pages import get
from tools.harness.api import running_api

SCRIPT = "__md_scope = 1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    (built / "index.html").write_text(f"<h1>First</h1><script>{SCRIPT}</script>")
    (built / "api").mkdir()
    (built / "api" / "index.html").write_text("<h1>Second</h1>")
    (built / "naive.cu").write_text("__global__")
    (built / "out").symlink_to("/etc/hostname")
    return built


@pytest.fixture(scope="module")
def client(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory, site: Path) -> Iterator[httpx.Client]:
    with (
        running_api(valkey, f"{new_id('site')}:", tmp_path_factory.mktemp("api"), site_dir=site) as api,
        api.client() as found,
    ):
        yield found


def test_pages_and_files_are_served_and_scripts_run_by_their_hash(client: httpx.Client) -> None:
    first = client.get("/site/")
    assert "First" in first.text and first.headers["content-type"].startswith("text/html")
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'" in first.headers["content-security-policy"]
    assert "unsafe-inline" not in re.findall(r"script-src[^;]*", first.headers["content-security-policy"])[0]
    assert "Second" in client.get("/site/api/").text
    assert client.get("/site/naive.cu").headers["content-type"].startswith("text/plain")
    again = client.get("/site/", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code in (200, 304)


def test_addresses_without_their_slash_are_led_on(client: httpx.Client) -> None:
    for address in ("/site", "/site/api"):
        reply = client.get(address)
        assert (reply.status_code, reply.headers["location"]) == (308, f"{address}/")


@pytest.mark.parametrize(
    "path", ["nowhere", "../pyproject.toml", "%2e%2e/%2e%2e/etc/passwd", "out", "a%00b", "a" * 5000]
)
def test_nothing_else_is(client: httpx.Client, path: str) -> None:
    reply = client.get(f"/site/{path}")
    assert reply.status_code in (400, 404) and "root:" not in reply.text


def test_pages_link_to_it(client: httpx.Client) -> None:
    assert "/site/" in get(client, "/").links


def test_without_one_the_address_says_how_to_have_it(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with (
        running_api(valkey, f"{new_id('nosite')}:", tmp_path, site_dir=tmp_path / "none") as api,
        api.client() as client,
    ):
        reply = client.get("/site/")
        assert reply.status_code == 404 and "make site" in reply.json()["detail"]
        assert "/site/" not in get(client, "/").links
