"""The API key that `make run` makes where keys are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import InvalidSettings
from jobs.settings import Settings
from service.keys import KeyRing, make_key
from service.local.keys import LocalKey, local_key


def settings_for_api(key: LocalKey, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in key.environment.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_no_key_on_loopback(tmp_path: Path) -> None:
    assert local_key(Settings(host="127.0.0.1"), tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_the_key_is_kept_and_known_to_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(host="0.0.0.0")
    key = local_key(settings, tmp_path)
    assert key is not None
    assert key.is_for_callers
    assert local_key(settings, tmp_path) == key
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    assert KeyRing(settings_for_api(key, monkeypatch)).known(key.value).id == key.value.split("_")[1]


def test_beside_keys_of_the_callers_own_it_makes_one_for_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pepper = "a pepper of enough bytes"
    own = make_key("alice", pepper.encode())
    monkeypatch.setenv("MATMUL_API_KEY_PEPPER", pepper)
    monkeypatch.setenv("MATMUL_API_KEYS", own.line)
    key = local_key(Settings(host="0.0.0.0"), tmp_path)
    assert key is not None
    assert not key.is_for_callers
    ring = KeyRing(settings_for_api(key, monkeypatch))
    assert {ring.known(own.key).id, ring.known(key.value).id} == {made.split("_")[1] for made in (own.key, key.value)}
    assert not list(tmp_path.iterdir())


def test_keys_without_a_pepper_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATMUL_API_KEYS", "abc:" + 64 * "0" + ":alice")
    with pytest.raises(InvalidSettings, match="pepper"):
        local_key(Settings(host="0.0.0.0"), tmp_path)


def test_an_open_server_on_any_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="MATMUL_AUTH=off"):
        local_key(Settings(host="0.0.0.0", auth="off"), tmp_path)
