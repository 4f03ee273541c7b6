"""API keys: `mm_<key id>_<secret>`. The server keeps `<key id>:<HMAC-SHA256 of the key>:<name>` and no key.

python -m service.keys new --name alice     prints a key, once, and the line to keep
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from jobs.errors import InvalidSettings, Unauthenticated
from jobs.settings import Settings, get_settings

PREFIX = "mm"
SECRET_BYTES = 32
MIN_PEPPER_BYTES = 16


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key as its holder gets it, and the line the server keeps."""

    key: str
    line: str


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What the server knows of a key."""

    id: str
    digest: str
    name: str


def digest_of(key: str, pepper: bytes) -> str:
    return hmac.new(pepper, key.encode(), hashlib.sha256).hexdigest()


def make_key(name: str, pepper: bytes) -> NewKey:
    """A fresh key of 256 random bits."""
    key_id = secrets.token_hex(6)
    key = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return NewKey(key, f"{key_id}:{digest_of(key, pepper)}:{'_'.join(name.split())}")


def read_pepper(settings: Settings) -> bytes:
    """The secret that keys are hashed with. Raises InvalidSettings."""
    if settings.api_key_pepper_file is not None:
        pepper = settings.api_key_pepper_file.read_bytes().strip()
    else:
        pepper = settings.api_key_pepper.get_secret_value().encode() if settings.api_key_pepper else b""
    if len(pepper) < MIN_PEPPER_BYTES:
        raise InvalidSettings(
            f"API keys need a pepper of at least {MIN_PEPPER_BYTES} bytes: set MATMUL_API_KEY_PEPPER_FILE or "
            "MATMUL_API_KEY_PEPPER."
        )
    return pepper


def parse_lines(lines: Iterable[str]) -> dict[str, KnownKey]:
    """Keys by id; blank lines and those that begin with # are skipped. Raises InvalidSettings."""
    known = {}
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        key_id, _, rest = text.partition(":")
        digest, _, name = rest.partition(":")
        if not key_id or len(digest) != hashlib.sha256().digest_size * 2:
            raise InvalidSettings(f"API key line {number} is not of the form <key id>:<hash>:<name>.")
        known[key_id] = KnownKey(key_id, digest, name)
    return known


class KeyRing:
    """The keys that this server answers to. The file is read again when it changes, so a key can be revoked."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pepper = read_pepper(settings)
        self._file_stamp: tuple[int, int] | None = None
        self._keys = self._read()
        if not self._keys:
            raise InvalidSettings(
                "API keys are on, but there is none: run `python -m service.keys new --name <name>` and put the line "
                "it prints into MATMUL_API_KEYS_FILE."
            )

    def _read(self) -> dict[str, KnownKey]:
        lines = self._settings.api_keys.get_secret_value().split() if self._settings.api_keys else []
        if (path := self._settings.api_keys_file) is not None:
            self._file_stamp = self._stamp()
            lines += path.read_text().splitlines()
        return parse_lines(lines)

    def _stamp(self) -> tuple[int, int] | None:
        path = self._settings.api_keys_file
        status = path.stat() if path is not None else None
        return (status.st_mtime_ns, status.st_size) if status else None

    def reload(self) -> None:
        """Reads the key file again if it changed since; one that cannot be read leaves the keys as they are."""
        with suppress(OSError, InvalidSettings):
            if self._stamp() != self._file_stamp:
                self._keys = self._read()

    def find(self, key_id: str) -> KnownKey | None:
        """What is known of the key with that id; None for one that was revoked."""
        return self._keys.get(key_id)

    def known(self, key: str) -> KnownKey:
        """The key, whose id owns what is made with it. Raises Unauthenticated."""
        prefix, _, rest = key.partition("_")
        found = self._keys.get(rest.partition("_")[0])
        expected = found.digest if found else "0" * 64  # so that an unknown id takes as long as a wrong secret
        right = hmac.compare_digest(digest_of(key, self._pepper), expected)
        if prefix != PREFIX or found is None or not right:
            raise Unauthenticated("This API key is not known here; it may have been revoked.")
        return found

    def owner_of(self, key: str) -> str:
        """The id of the key, which owns what is made with it. Raises Unauthenticated."""
        return self.known(key).id


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m service.keys", description="API keys.")
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="make a key; prints it once, and the line the server keeps")
    new.add_argument("--name", required=True, help="whose key it is; shown nowhere but in that line")
    chosen = parser.parse_args(arguments)
    try:
        made = make_key(chosen.name, read_pepper(get_settings()))
    except InvalidSettings as error:
        print(error.detail, file=sys.stderr)
        return 2
    print(f"key (give it to its holder; it is not shown again): {made.key}")
    print(f"line (add it to MATMUL_API_KEYS_FILE): {made.line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
