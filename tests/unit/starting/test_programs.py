"""Programs of the service on the command line: their help, and one sentence where they cannot start."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import service.__main__
import service.local.run
import worker.process.main
from jobs.errors import InvalidSettings
from jobs.redis import acl
from jobs.redis.embedded import free_port
from jobs.settings import get_settings
from jobs.starting.options import CANNOT_START
from jobs.starting.wrong_settings import checked_settings
from service import pause
from service.keys import __main__ as keys
from service.keys import make_key
from worker.device.exists import check_device
from worker.process import tune

Main = Callable[[Sequence[str]], Any]
PROGRAMS: dict[str, Main] = {
    "python -m service": service.__main__.main,
    "python -m service.local": service.local.run.main,
    "python -m worker": worker.process.main.main,
    "python -m worker.process.tune": tune.main,
}


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """What a program tells its children is gone afterwards, and settings are read anew."""
    kept = dict(os.environ)
    get_settings.cache_clear()
    yield
    os.environ.clear()
    os.environ.update(kept)
    get_settings.cache_clear()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("option", "words"), [("--help", "exit status:"), ("--settings", "MATMUL_REDIS_URL=redis://")])
def test_a_program_says_what_it_takes_and_ends(
    program: str, option: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        PROGRAMS[program]([option])
    assert not ended.value.code
    said = capsys.readouterr()
    assert words in said.out and not said.err
    assert option == "--settings" or said.out.startswith(f"usage: {program} ")


@pytest.mark.parametrize("program", [program for program in PROGRAMS if not program.endswith("tune")])
def test_all_wrong_settings_are_one_line(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.environ |= {"MATMUL_PORT": "abc", "MATMUL_AUTH": "maybe", "MATMUL_REDIS_URL": "redis://:hidden@there"}
    with pytest.raises(SystemExit) as ended:
        PROGRAMS[program]([])
    assert ended.value.code == CANNOT_START
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert "MATMUL_PORT is 'abc', but must be a valid integer; MATMUL_AUTH is 'maybe', but must be" in line
    assert not said.out and "hidden" not in line and "pydantic" not in line


@pytest.mark.parametrize(
    "main",
    [lambda: keys.main(["list"]), lambda: pause.main(["show"]), lambda: acl.main([]), lambda: tune.main([])],
    ids=["keys", "pause", "acl", "tune"],
)
def test_so_say_the_tools(main: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["MATMUL_PORT"] = "abc"
    assert main() > 0
    assert capsys.readouterr().err == "MATMUL_PORT is 'abc', but must be a valid integer.\n"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MATMUL_ALLOWED_HOSTS", "here", "MATMUL_ALLOWED_HOSTS is not JSON"),
        ("MATMUL_REDIS_URL", "localhost:6379", "MATMUL_REDIS_URL must begin with redis://"),
        ("MATMUL_REDIS_URL", "sentinel://here:26379/0", "MATMUL_REDIS_URL must name Redis, not its Sentinels"),
        ("MATMUL_REDIS_URL_FILE", "/nowhere/url", "MATMUL_REDIS_URL_FILE: /nowhere/url cannot be read"),
        ("MATMUL_REDIS_URL", "redis://me:se/cret@here:6379/0", "MATMUL_REDIS_URL cannot be read: it must look"),
        ("MATMUL_REDIS_URL", "redis://here/jobs", "MATMUL_REDIS_URL cannot be read: it must look"),
        ("MATMUL_S3_ENDPOINT", "here", "MATMUL_S3_ENDPOINT is 'here', but must match pattern '^https?://'."),
        ("MATMUL_CELL", "x1", "MATMUL_CELL is 'x1', but must be hex digits, as 007."),
        ("MATMUL_UNIX_SOCKET_MODE", "9", "MATMUL_UNIX_SOCKET_MODE is '9', but must be three octal digits, as 600."),
        ("MATMUL_UNIX_SOCKET_MODE", "-1", "MATMUL_UNIX_SOCKET_MODE is '-1', but must be three octal digits, as 600."),
        ("MATMUL_SWEEP_S", "9", "MATMUL_SWEEP_S is 9: it must be 2 at most"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str, words: str) -> None:
    os.environ[name] = value
    with pytest.raises(InvalidSettings) as refused:
        checked_settings()
    assert words in refused.value.detail and "\n" not in refused.value.detail


@pytest.mark.parametrize("url", ["redis://me:se/cret@here:6379/0", "redis://me:12#cret@here:6379/0"])
def test_no_part_of_a_password_is_told(url: str) -> None:
    os.environ["MATMUL_REDIS_URL"] = url
    with pytest.raises(InvalidSettings) as refused:
        checked_settings()
    assert "cret" not in refused.value.detail and "se" not in refused.value.detail.split()


@pytest.mark.parametrize("url", ["redis://here", "redis://here/", "rediss://:p%2F@here:1/15", "unix:///run/redis.sock"])
def test_a_url_of_redis_may_lack_parts(url: str) -> None:
    os.environ["MATMUL_REDIS_URL"] = url
    assert checked_settings().redis_url.get_secret_value() == url


@pytest.mark.parametrize("name", ["MATMUL_API_KEYS_FILE", "MATMUL_API_KEY_PEPPER_FILE", "MATMUL_AUDIT_FILE"])
def test_a_file_that_is_not_there_is_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.__main__, "configure_logs", lambda _: None)  # it holds for the whole process
    missing = tmp_path / "not" / "there"
    os.environ |= {"MATMUL_AUTH": "on", "MATMUL_API_KEY_PEPPER": "p" * 16, "MATMUL_STORE_DIR": str(tmp_path / "store")}
    os.environ |= {"MATMUL_API_KEYS": make_key("me", b"p" * 16).line, name: str(missing)}
    with pytest.raises(SystemExit):
        service.__main__.main([])
    said = f"matmul-service cannot start: {missing} cannot be opened (No such file or directory).\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MATMUL_API_KEYS_FILE", "/bin/sh", "/bin/sh is no text in UTF-8"),
        ("MATMUL_STORE_DIR", "/dev/null", "MATMUL_STORE_DIR: /dev/null"),
    ],
)
def test_a_path_to_something_else_is_a_sentence(
    name: str, value: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.__main__, "configure_logs", lambda _: None)  # it holds for the whole process
    with_keys = "on" if name == "MATMUL_API_KEYS_FILE" else "off"
    os.environ |= {"MATMUL_PORT": str(free_port()), "MATMUL_AUTH": with_keys, "MATMUL_API_KEY_PEPPER": "p" * 16}
    os.environ[name] = value
    with pytest.raises(SystemExit) as ended:
        service.__main__.main([])
    assert ended.value.code == CANNOT_START
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_a_gpu_that_is_hidden_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    with pytest.raises(SystemExit) as ended:
        worker.process.main.main(["--device", "gpu:7"])
    assert ended.value.code == CANNOT_START
    assert "the worker for gpu:7 cannot start: CUDA_VISIBLE_DEVICES leaves 2 GPUs" in capsys.readouterr().err


def test_replicas_of_the_embedded_redis_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It has none, so every 202 would be a 503."""
    os.environ |= {"MATMUL_REDIS_REPLICAS": "1", "MATMUL_PORT": str(free_port())}
    with pytest.raises(SystemExit):
        service.local.run.main(["--state-dir", str(tmp_path)])
    assert "MATMUL_REDIS_REPLICAS is 1, but the Redis that this starts has no replicas" in capsys.readouterr().err


def test_options_stand_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.local.run, "serve", lambda settings: f"{settings.host}:{settings.port}")
    with pytest.raises(SystemExit) as ended:
        service.local.run.main(["--host", "127.0.0.2", "--port", "9"])
    assert ended.value.code == "127.0.0.2:9"
    assert os.environ["MATMUL_PORT"] == "9"  # for the processes that it starts


def test_a_gpu_worker_without_cupy_or_gpu_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check_device("cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "99")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidSettings, match="--device gpu:99 needs CuPy, which is not installed"):
        check_device("gpu:99")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    with pytest.raises(InvalidSettings, match=r"NVIDIA's driver|CUDA finds no gpu:99 here"):
        check_device("gpu:99")
