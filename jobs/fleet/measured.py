"""Measurements for `auto`, in Redis. All workers with the same device model, driver and kernels share them. A shape is
identified by a name and its measurement is a text; only the workers interpret them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import redis

from jobs.redis.client import translated
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts

LUA_DIR = Path(__file__).parent / "lua"
MAX_MEASURED, MAX_WANTED = 4096, 1024  # shapes
KEPT_S = 90 * 86_400  # after the last change
MAX_TEXT = 16_384  # bytes; what is measured at a shape takes some 2,000
READ_AT_ONCE = 100  # shapes
TUNE_S = 30  # how long a request to measure (`make tune`) stays in force; who waits for it repeats it


class MeasuredShapes:
    """The measurements of one device model. Safe to share between threads. Raises StoreUnavailable, StoreFull."""

    def __init__(self, client: redis.Redis, *, prefix: str, model: str, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._model = model
        self._run = RedisScripts(client, prefix, LUA_DIR, clock=clock).run

    @translated()
    def all(self) -> Mapping[str, str]:
        """Measurements by shape name; the text is empty if measuring gave nothing. Of a store that holds more than
        MAX_MEASURED, some of them."""
        key = self._key("measured")
        found: dict[bytes, bytes | None] = {}
        keys: Any = self._client.hkeys(key)
        names = keys[:MAX_MEASURED]
        for first in range(0, len(names), READ_AT_ONCE):
            some = names[first : first + READ_AT_ONCE]
            texts: Any = self._client.hmget(key, some)
            found |= dict(zip(some, texts, strict=True))
        short = {name: text for name, text in found.items() if text is not None and len(text) <= MAX_TEXT}
        return {_decoded(name): _decoded(text) for name, text in short.items()}

    @translated()
    def of(self, names: Sequence[str]) -> Mapping[str, str]:
        """The measurements of the given shapes, as far as they exist."""
        found: Any = self._client.hmget(self._key("measured"), list(names)) if names else []
        named = zip(names, found, strict=True)
        return {name: _decoded(text) for name, text in named if text and len(text) <= MAX_TEXT}

    def want(self, names: Sequence[str]) -> None:
        """Adds requested shapes to the list of those to be measured, except shapes that were already tried."""
        if names:
            self._run("want_shapes", self._model, MAX_WANTED, KEPT_S, *names)

    @translated()
    def to_measure(self, count: int) -> Sequence[str]:
        """At most `count` shapes to be measured, the most recently requested first."""
        found: Any = self._client.zrevrange(self._key("wanted"), 0, count - 1)
        if damaged := [name for name in found if _decoded(name).encode() != name]:
            self._client.zrem(self._key("wanted"), *damaged)
        return [_decoded(name) for name in found if name not in damaged]

    def begin(self, name: str) -> bool:
        """Marks a shape as tried. Returns True if this worker should measure it, False if another already tried it."""
        return bool(self._run("begin_shape", self._model, MAX_MEASURED, KEPT_S, name))

    def keep(self, name: str, text: str) -> None:
        """Stores the measurement of a shape."""
        self._run("keep_shape", self._model, MAX_MEASURED, KEPT_S, name, text)

    def put_back(self, name: str) -> None:
        """Returns a shape whose measurement was begun here but interrupted to the list."""
        self._run("put_back_shape", self._model, name)

    @translated()
    def ask(self) -> None:
        """Asks workers with `MATMUL_AUTO_MEASURES=asked` to measure, for TUNE_S seconds."""
        self._client.set(f"{self._prefix}tune", "1", ex=TUNE_S)

    @translated()
    def end_asking(self) -> None:
        self._client.delete(f"{self._prefix}tune")

    @translated()
    def is_asked(self) -> bool:
        return bool(self._client.exists(f"{self._prefix}tune"))

    def _key(self, kind: str) -> str:
        return f"{self._prefix}{kind}:{self._model}"


def _decoded(text: bytes) -> str:
    """Damaged bytes become marks, which no shape's name and no measurement has."""
    return text.decode(errors="replace")
