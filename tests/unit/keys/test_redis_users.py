"""Redis' users: each command that a script runs is allowed, and what ends or empties a server is not."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from jobs.redis.acl import ROLES, SHARED, Role, main, user_name
from jobs.redis.embedded import EmbeddedServer, find_server, free_port
from tools.harness.api import until

ROOT = Path(__file__).resolve().parents[3]
FUNCTION_LIST = ("FUNCTION", "LIST")  # the API removes old libraries
FORBIDDEN = (
    *(
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("CONFIG", "SET", "maxmemory", "1"),
        ("DEBUG", "SLEEP", "0"),
        ("SHUTDOWN",),
    ),
    *(("SCRIPT", "KILL"), ("SCRIPT", "FLUSH"), FUNCTION_LIST, ("MODULE", "LIST"), ("ACL", "LIST"), ("MONITOR",)),
    *(
        ("CLIENT", "LIST"),
        ("SLAVEOF", "NO", "ONE"),
        ("SAVE",),
        ("SCAN", "0"),
        ("SWAPDB", "0", "1"),
        ("CONFIG", "REWRITE"),
    ),
    *(("GET", "another:key"), ("PUBLISH", "another", "x")),
)


def test_every_command_of_the_scripts_is_allowed() -> None:
    texts = [path.read_text() for path in (ROOT / "jobs").rglob("*.lua")]
    used = {name.lower() for text in texts for name in re.findall(r"(?:redis\.call|write)\('([A-Z]+)'", text)}
    assert len(used) > 30 and used <= set(SHARED)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    started = EmbeddedServer(tmp_path_factory.mktemp("acl") / "redis", key_prefix="a[b]*:")
    started.start()
    yield started
    started.stop()


@pytest.mark.parametrize("role", ROLES)
def test_a_user_has_its_own_keys_and_no_power_over_the_server(server: EmbeddedServer, role: Role) -> None:
    with redis.Redis.from_url(server.url_of(role)) as client, server.client() as root:
        assert client.set("a[b]*:job:1", "x") and client.eval("return redis.call('GET', 'a[b]*:job:1')", 0) == b"x"
        for command in (each for each in FORBIDDEN if (role, each) != ("api", FUNCTION_LIST)):
            refusal = root.execute_command("ACL", "DRYRUN", user_name(role), *command)
            assert isinstance(refusal, bytes) and b"permission" in refusal, command
        for script in ("redis.call('GET', 'another:key')", "redis.call('FLUSHALL')"):
            with pytest.raises(redis.exceptions.ResponseError, match="ACL failure"):
                client.eval(script, 0)


def test_the_configuration_shows_no_password(server: EmbeddedServer) -> None:
    """The API may read it, to see what is synced."""
    with redis.Redis.from_url(server.url_of("api"), decode_responses=True) as api:
        found = api.config_get("*")
    assert found["appendonly"] == "yes" and not [name for name in found if "pass" in name and found[name]]
    with redis.Redis.from_url(server.url_of("worker")) as worker, pytest.raises(redis.exceptions.NoPermissionError):
        worker.config_get("*")


def test_a_worker_sees_no_sign_ins(server: EmbeddedServer) -> None:
    with redis.Redis.from_url(server.url_of("api")) as api, redis.Redis.from_url(server.url_of("worker")) as worker:
        api.set("a[b]*:session:1", "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            worker.get("a[b]*:session:1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            worker.set("a[b]*:session:2", "x")
        worker.set("a[b]*:shapes", "x")


def test_the_command_prints_what_a_server_takes(server: EmbeddedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--prefix", "other:"]) == 0
    printed = capsys.readouterr()
    with server.client() as root:
        for line in printed.out.splitlines():
            _, name, *rules = line.split()
            assert name == "default" or root.execute_command("ACL", "SETUSER", name, *rules) == b"OK"
    for role, line in zip(ROLES, printed.err.splitlines()[:2], strict=True):
        url = line.partition(": ")[2].replace("<host>:6379", f"127.0.0.1:{server.port}")
        with redis.Redis.from_url(url) as client:
            assert client.execute_command("PING") and client.set("other:x", role) and user_name(role) in url


def test_an_acl_file_of_these_lines_lets_nobody_in_without_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With such a file Redis ignores `requirepass`."""
    assert main(["--prefix", "other:"]) == 0
    printed = capsys.readouterr()
    (tmp_path / "users.acl").write_text(printed.out)
    address = f"127.0.0.1:{(port := free_port())}"
    options = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", "")
    users = ("--requirepass", "x", "--aclfile", str(tmp_path / "users.acl"))
    with subprocess.Popen([find_server(), *options, *users], stdout=subprocess.DEVNULL) as server:
        try:
            until(lambda: is_listening(port))
            with redis.Redis(port=port) as stranger, pytest.raises(redis.exceptions.AuthenticationError):
                stranger.ping()
            whose, _, url = printed.err.splitlines()[-1].partition(": ")
            with redis.Redis.from_url(url.replace("<host>:6379", address)) as administrator:
                assert whose == "administrator" and administrator.config_set("maxmemory", "1gb")
        finally:
            server.kill()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
