"""API keys for `make run`: if keys are required and none is configured, it creates one and keeps it."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from jobs.settings import Settings
from service.http.security import keys_are_on
from service.keys import SECRET_BYTES, make_key, read_pepper


@dataclass(frozen=True, slots=True)
class LocalKey:
    """A key for the launcher, and the settings with which the API accepts it."""

    value: str
    environment: dict[str, str]
    is_for_callers: bool  # whether it is to be shown


def local_key(settings: Settings, state: Path) -> LocalKey | None:
    """The launcher's key; None if no keys are required. Raises InvalidSettings if keys are configured without a
    pepper.
    """
    if not keys_are_on(settings):
        return None
    if settings.api_keys_file or settings.api_keys:
        return _passing_key(settings)
    return _kept_key(state)


def _passing_key(settings: Settings) -> LocalKey:
    """A temporary key for the first product, in addition to the user's own keys, of which only hashes are known."""
    made = make_key("launcher", read_pepper(settings))
    lines = settings.api_keys.get_secret_value() if settings.api_keys else ""
    return LocalKey(made.key, {"MATMUL_API_KEYS": f"{lines} {made.line}"}, is_for_callers=False)


def _kept_key(state: Path) -> LocalKey:
    """The key in the state directory, created by the first start, so that its jobs keep their owner across restarts."""
    key, lines, pepper = (state / name for name in ("api_key", "api_keys", "api_key_pepper"))
    if not key.exists():
        _write_private(pepper, secrets.token_hex(SECRET_BYTES))
        made = make_key("local", pepper.read_bytes())
        _write_private(lines, made.line)
        _write_private(key, made.key)  # last: if this file exists, the other two do too
    environment = {"MATMUL_API_KEYS_FILE": str(lines), "MATMUL_API_KEY_PEPPER_FILE": str(pepper)}
    return LocalKey(key.read_text(), environment, is_for_callers=True)


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
