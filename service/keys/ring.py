"""The keys that this server accepts."""

from __future__ import annotations

import hashlib
import hmac
import time

import structlog

from jobs.errors import InvalidSettings, Unauthenticated
from jobs.settings import Settings
from service.keys.line import PREFIX, KnownKey, digest_of, lines_in, parse_lines

MIN_PEPPER_BYTES = 16
RELOAD_S = 1.0  # how often a server looks whether the key file has changed

log = structlog.get_logger()


def read_pepper(settings: Settings) -> bytes:
    """The secret that keys are hashed with. Raises InvalidSettings."""
    if settings.api_key_pepper_file is not None:
        pepper = settings.api_key_pepper_file.read_bytes().strip()
    else:
        pepper = settings.api_key_pepper.get_secret_value().encode() if settings.api_key_pepper else b""
    if len(pepper) < MIN_PEPPER_BYTES:
        raise InvalidSettings(
            f"API keys need a pepper of at least {MIN_PEPPER_BYTES} bytes: set MATMUL_API_KEY_PEPPER_FILE or "
            "MATMUL_API_KEY_PEPPER; docs/operations.md has the commands, under Keys."
        )
    return pepper


class KeyRing:
    """The keys from settings and file. The file is read again when it changes, so that keys can be revoked."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pepper = read_pepper(settings)
        self._file_stamp: tuple[int, int, int] | None = None
        self._next_look = 0.0
        self._unread: str | None = None  # why the file cannot be read
        self._keys = self._read()
        if not self._keys:
            raise InvalidSettings(
                "API keys are on, but there is none: run `python -m service.keys new --name <name>` and put the line "
                "it prints into MATMUL_API_KEYS_FILE."
            )

    def _read(self) -> dict[str, KnownKey]:
        lines = self._settings.api_keys.get_secret_value().split() if self._settings.api_keys else []
        if (path := self._settings.api_keys_file) is not None:
            stamp, text = self._stamp(), path.read_bytes()
            self._file_stamp = stamp  # of a file that cannot be read only later
            lines += lines_in(text, path)
        return parse_lines(lines)

    def _stamp(self) -> tuple[int, int, int] | None:
        path = self._settings.api_keys_file
        status = path.stat() if path is not None else None
        return (status.st_mtime_ns, status.st_size, status.st_ino) if status else None

    def refresh(self) -> None:
        """As `reload`, but at most every RELOAD_S."""
        if time.monotonic() >= self._next_look:
            self.reload()
            self._next_look = time.monotonic() + RELOAD_S

    def reload(self) -> None:
        """Reads the key file again if it has changed. If it cannot be read, the keys stay as they are, and the reason
        is logged, once.
        """
        try:
            if self._stamp() != self._file_stamp:
                self._keys = self._read()
            self._unread = None
        except OSError as error:  # it is being replaced, or its disk is unavailable; try again a second later
            if self._unread != error.strerror:
                self._unread = error.strerror
                log.error("the key file cannot be read, so the keys stay as they were", reason=error.strerror)
        except InvalidSettings as error:
            log.error("the key file is wrong, so the keys stay as they were", reason=error.detail)

    def find(self, key_id: str) -> KnownKey | None:
        """The key with that id; None if it was revoked or has expired."""
        known = self._keys.get(key_id)
        return None if known is None or known.is_expired() else known

    def known(self, key: str) -> KnownKey:
        """The known key for a presented key; its id is the owner of what is created with it. Raises Unauthenticated."""
        prefix, _, rest = key.partition("_")
        found = self._keys.get(rest.partition("_")[0])
        expected = found.digest if found else "0" * 64  # so that an unknown id takes as long as a wrong secret
        right = hmac.compare_digest(digest_of(key, self._pepper), expected)
        if prefix != PREFIX or found is None or not right:
            raise Unauthenticated("This API key is not known here; it may have been revoked.")
        if found.is_expired():
            raise Unauthenticated(
                f"This API key expired on {found.expires_at:%Y-%m-%d at %H:%M} UTC; ask for a new one."
            )
        return found

    def write_token(self, session: str) -> str:
        """The CSRF token that pages of that session send with every change; it cannot be derived from the session's
        name alone.
        """
        return hmac.new(self._pepper, f"csrf {session}".encode(), hashlib.sha256).hexdigest()[:32]
