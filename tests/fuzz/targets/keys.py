"""Credentials: the headers they come in, and the lines of a key file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pydantic import SecretStr

from jobs.settings import Settings
from service.http.security import Gate
from service.keys import KeyRing, make_key
from service.keys.line import parse_line
from tests.fuzz.target import Target
from tests.fuzz.targets.heads import answer, scope_of

PEPPER = "a pepper for these tests"
KEY = make_key("mallory", PEPPER.encode())
SESSION = "a-session-that-lives"


class _Sessions:
    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def key_of(self, name: str, ring: KeyRing) -> Any:
        return ring.find(KEY.line.partition(":")[0]) if name == SESSION else None


SETTINGS = Settings(
    auth="on", api_keys=SecretStr(KEY.line), api_key_pepper=SecretStr(PEPPER), store_dir=Path("/nowhere")
)
RING = KeyRing(SETTINGS)
SESSIONS = _Sessions()
APP = SimpleNamespace(
    state=SimpleNamespace(
        context=SimpleNamespace(
            **{"audit": None, "keys": RING, "sessions": SESSIONS, "call": SESSIONS.call},
            failed_keys=SimpleNamespace(failed=lambda address: False),
        )
    )
)


async def _let_in(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


GATE = Gate(cast(Any, _let_in), SETTINGS, RING)


def _credentials(data: bytes) -> None:
    """Lines of headers. Nobody is let in who has neither the key nor the session."""
    lines = (line.partition(b": ") for line in data.split(b"\n"))
    headers = [(name.lower(), value) for name, _, value in lines if name and b"\r" not in value and b"\0" not in value]
    scope = scope_of(headers) | {"app": APP}
    status, _ = answer(GATE, scope)
    assert status in (200, 400, 401, 403), status
    assert status != 200 or KEY.key.encode() in data or SESSION.encode() in data


def _credentials_seeds() -> Iterator[bytes]:
    host = b"host: localhost:8000"
    yield b"\n".join((host, b"authorization: Bearer " + KEY.key.encode()))
    yield b"\n".join((host, b"x-api-key: " + KEY.key.encode()))
    yield b"\n".join((host, b"cookie: a=b; matmul_session=" + SESSION.encode(), b"origin: http://localhost:8000"))
    yield b"\n".join((host, b"authorization: Basic eDp5", b'cookie: matmul_session="x\\054y"', b"sec-fetch-site: none"))
    yield b"authorization: Bearer mm_x_y\norigin: http://["


def _key_line(data: bytes) -> None:
    try:
        key = parse_line(data.decode("utf-8", "replace"))
    except ValueError as error:
        assert str(error).endswith("."), error
        return
    key.is_expired()
    assert parse_line(key.line) == key


def _key_line_seeds() -> Iterator[bytes]:
    line = KEY.line
    yield line.encode()
    for option in ("role=reader", "expires=20270131T000000Z", "jobs=500:flops_per_minute=1e15", "job_bytes=1.5"):
        yield f"{line}:{option}".encode()
    yield f"{line}:expires=2027-01-31:role=operator:queued_jobs=7".encode()


TARGETS = (
    Target("credentials", _credentials, _credentials_seeds, (b"Bearer ", b"cookie: ", b"\norigin: ", b"x-api-key: ")),
    Target("key_line", _key_line, _key_line_seeds, (b":role=", b":expires=", b":jobs=", b"operator"), max_bytes=512),
)
