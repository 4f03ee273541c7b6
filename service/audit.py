"""The audit log: a line for each request that changes anything, for each sign-in, and for each request refused because
of its key. Lines are JSON on the logger `matmul.audit`, independent of MATMUL_LOG_LEVEL. Each contains the hash of the
previous line of the same process, so `python -m service.audit FILE` finds the first line that breaks the chain.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import secrets
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import orjson
from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from jobs.errors import MatmulError
from jobs.settings import Settings
from service.keys.wrong_keys import address_of

LOGGER = "matmul.audit"
FIRST = "0" * 32
READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_PATH = 200


def action_of(scope: Scope) -> str:
    """The operation's name, as in /openapi.json; for a page the name of its function."""
    route = scope.get("route")
    name = getattr(route, "operation_id", None) or getattr(route, "name", None)
    return str(name) if name else f"{scope['method']} of no path"


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def open_file(path: Path) -> int:
    """A descriptor that lines are appended to. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def check_file(settings: Settings) -> None:
    """Raises OSError if the audit file cannot be opened: before the server runs, where it would be a traceback."""
    if settings.audit_file is not None:
        os.close(open_file(settings.audit_file))


class Audit:
    """The audit log of one process. Lines go to MATMUL_AUDIT_FILE if it is set, otherwise to the log; to the log also
    while the file cannot be written, for what they say has been done.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises OSError if the file cannot be opened."""
        self._log = logging.getLogger(LOGGER)
        self._file: int | None = None
        if settings.audit_file is not None:
            self._file = open_file(settings.audit_file)
        self._begin = b""  # of the next line in the file: ends one that was cut off
        self._log.setLevel(logging.INFO)
        self._chain = secrets.token_hex(4)
        self._last = FIRST

    def listening(self, scope: Scope, send: Send) -> Send:
        """Wraps `send` for a request that may change something: its line is written when the response begins."""
        if scope["method"] in READING:
            return send

        async def tell_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                location = Headers(raw=message["headers"]).get("location")
                about = " ".join(map(str, scope.get("path_params", {}).values())) or location
                self._tell(scope, action_of(scope), about, str(message["status"]))
            await send(message)

        return tell_and_send

    def refused(self, scope: Scope, error: MatmulError) -> None:
        """Logs a request with a wrong key, or one that its key may not make."""
        self._tell(scope, "refused", f"{scope['method']} {scope['path'][:MAX_PATH]}", error.type)

    def _tell(self, scope: Scope, action: str, about: str | None, result: str) -> None:
        state = scope["state"]
        role = state.get("role")
        line = orjson.dumps(
            {
                "at": datetime.now(UTC),
                "key": state.get("owner"),
                "role": role.word if role is not None else None,
                "action": action,
                "object": about,
                "result": result,
                "request_id": state.get("request_id"),
                "address": address_of(scope),
                "chain": self._chain,
                "after": self._last,
            }
        )
        self._last = _hash(line)
        if self._file is None or not self._is_written(self._file, line):
            self._log.info("%s", line.decode())

    def _is_written(self, file: int, line: bytes) -> bool:
        """Whether the whole line is in the file."""
        whole = self._begin + line + b"\n"
        try:
            written = os.write(file, whole)  # one write, so that lines of several processes do not mix
        except OSError as error:
            self._log.error("the audit file cannot be written, so a line is here (%s)", error.strerror)
            return False
        if written < len(whole):
            self._log.error("the audit file has only part of a line, so it is here")
        self._begin = b"" if written == len(whole) else b"\n"
        return written == len(whole)


def broken_at(lines: Iterable[bytes]) -> int | None:
    """The number (from 1) of the first line that is none of this log, or does not follow the previous line of its
    process; None if there is none. Lines removed from the end of a chain are not detected.
    """
    last: dict[str, str] = {}
    for number, line in enumerate((line.rstrip(b"\n") for line in lines), 1):
        try:
            entry = orjson.loads(line)
            chain, after = str(entry["chain"]), entry["after"]
        except (ValueError, TypeError, KeyError):
            return number
        if after != last.get(chain, FIRST):
            return number
        last[chain] = _hash(line)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m service.audit", description="Checks the lines of an audit file.")
    parser.add_argument("file", type=Path, help="the file of MATMUL_AUDIT_FILE")
    try:
        with open(parser.parse_args().file, "rb") as lines:
            number = broken_at(lines)
    except OSError as error:
        print(f"{error.filename} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    print("every line follows the one before it" if number is None else f"line {number} does not follow")
    return 0 if number is None else 1


if __name__ == "__main__":
    sys.exit(main())
