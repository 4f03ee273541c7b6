"""Atomic changes of the key file: a server that reads it at the same time sees it before or after the change."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jobs.errors import InvalidSettings
from jobs.settings import Settings
from service.keys.line import KnownKey, lines_in, parse_lines


class KeyFile:
    """The file MATMUL_API_KEYS_FILE. Comments and the order of lines are preserved. Methods raise OSError."""

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidSettings if no file is configured."""
        if settings.api_keys_file is None:
            raise InvalidSettings("Set MATMUL_API_KEYS_FILE: this changes the file that it names.")
        self._path: Path = settings.api_keys_file

    def keys(self) -> dict[str, KnownKey]:
        """The keys by id. Raises InvalidSettings."""
        return parse_lines(self._lines())

    def get(self, key_id: str) -> KnownKey:
        """The key with that id. Raises InvalidSettings if the file has no such key."""
        known = self.keys().get(key_id)
        if known is None:
            raise InvalidSettings(
                f"{self._path} has no key {key_id}; `python -m service.keys list` shows those it has. A key in "
                "MATMUL_API_KEYS is changed there, and with a restart."
            )
        return known

    def add(self, line: str) -> None:
        self._write([*self._lines(), line])

    def replace(self, key_id: str, line: str | None) -> None:
        """Replaces the key's line by `line`, or removes it."""
        kept = [line if each.strip().startswith(f"{key_id}:") else each for each in self._lines()]
        self._write([each for each in kept if each is not None])

    def _lines(self) -> list[str]:
        return lines_in(self._path.read_bytes(), self._path) if self._path.exists() else []

    def _write(self, lines: list[str]) -> None:
        mode = self._path.stat().st_mode & 0o777 if self._path.exists() else 0o600
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with open(handle, "w") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except OSError:
            os.unlink(name)
            raise
