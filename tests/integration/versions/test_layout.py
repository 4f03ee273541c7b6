"""The number of the layout in Redis: written once, and a process that does not know it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
import redis
from pydantic import SecretStr
from structlog.testing import capture_logs

from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.redis.layout import LAYOUT, OLDEST, WrongLayout, check_layout, claim_layout
from jobs.settings import Settings
from tests.integration.api.test_jobs import problem
from tests.support.ledger.ledgers import settings_for
from tools.harness.api import Api

NEWER = LAYOUT + 1


@pytest.fixture
def settings(valkey: EmbeddedServer, key_prefix: str) -> Settings:
    return settings_for(valkey, key_prefix)


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    with connect(settings) as client:
        yield client


def test_the_first_process_writes_it(settings: Settings, client: redis.Redis) -> None:
    key = f"{settings.key_prefix}layout"
    check_layout(client, settings.key_prefix)  # none is there, as with a Redis that is new
    claim_layout(settings)
    assert client.get(key) == str(LAYOUT).encode()
    for known in (LAYOUT, OLDEST):
        client.set(key, known)
        claim_layout(settings)
        assert client.get(key) == str(known).encode()  # as it was found


@pytest.mark.parametrize("found", [NEWER, OLDEST - 1, "?"])
def test_one_that_is_not_known_is_refused(settings: Settings, client: redis.Redis, found: int | str) -> None:
    client.set(f"{settings.key_prefix}layout", found)
    with pytest.raises(WrongLayout, match=r"layout .* works with"):
        claim_layout(settings)
    with pytest.raises(WrongLayout, match=r"layout .* works with"):
        check_layout(client, settings.key_prefix)


def test_a_redis_that_is_away_stops_no_start(valkey: EmbeddedServer) -> None:
    """The log says what the matter is."""
    nobody, stranger = f"127.0.0.1:{free_port()}", f"me:wrong@127.0.0.1:{valkey.port}"
    for address, words in ((nobody, "refused"), (stranger, "invalid username-password pair")):
        with capture_logs() as lines:
            claim_layout(Settings(redis_url=SecretStr(f"redis://{address}/0")))
        (line,) = lines
        assert words in line["cause"] and "wrong" not in line["cause"]


@pytest.mark.parametrize("command", [["service"], ["worker", "--device", "cpu"]])
def test_a_process_of_an_older_version_does_not_start(
    settings: Settings, client: redis.Redis, command: list[str]
) -> None:
    client.set(f"{settings.key_prefix}layout", NEWER)
    environment = {
        "MATMUL_REDIS_URL": settings.redis_url.get_secret_value(),
        "MATMUL_KEY_PREFIX": settings.key_prefix,
        "MATMUL_PORT": "0",
    }
    run = [sys.executable, "-m", *command]
    ended = subprocess.run(run, env=os.environ | environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    assert f"layout {NEWER}" in sentence and "start the version that wrote it" in sentence


def test_readyz_tells(api: Api, quiet: httpx.Client) -> None:
    key = f"{api.settings.key_prefix}layout"
    with connect(api.settings) as client:
        assert quiet.get("/readyz").status_code == 200
        client.set(key, NEWER)
        assert f"layout {NEWER}" in problem(quiet.get("/readyz"), 503, "wrong_layout")["detail"]
        client.set(key, LAYOUT)
        assert quiet.get("/readyz").status_code == 200
