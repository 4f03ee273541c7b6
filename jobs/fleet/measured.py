"""Measurements for `auto`, in Redis. All workers with the same device model, driver and kernels share them. A shape is
identified by a name and its measurement is a text; only the workers interpret them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import redis
import structlog

from jobs.redis.client import translated
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts

LUA_DIR = Path(__file__).parent / "lua"
MAX_MEASURED, MAX_WANTED = 4096, 1024  # shapes
KEPT_S = 90 * 86_400  # after the last change
MAX_TEXT = 16_384  # bytes; what is measured at a shape takes some 2,000
READ_AT_ONCE = 100  # shapes
TUNE_S = 30  # how long a request to measure (`make tune`) stays in force; who waits for it repeats it

_Name = TypeVar("_Name", str, bytes)

log = structlog.get_logger(__name__)


class MeasuredShapes:
    """The measurements of one device model. Safe to share between threads. Raises StoreUnavailable, StoreFull."""

    def __init__(self, client: redis.Redis, *, prefix: str, model: str, clock: str = SERVER_CLOCK) -> None:
        self._client = client
        self._prefix = prefix
        self._model = model
        self._scripts = RedisScripts(client, prefix, LUA_DIR, clock=clock)

    @translated()
    def all(self) -> Mapping[str, str]:
        """Measurements by shape name; the text is empty if measuring gave nothing. Of a store that holds more than
        MAX_MEASURED, some of them."""
        names: Any = self._sound(lambda: self._client.hkeys(self._key("measured")))
        found: dict[str, str] = {}
        for first in range(0, min(len(names), MAX_MEASURED), READ_AT_ONCE):
            some = names[first : min(first + READ_AT_ONCE, MAX_MEASURED)]
            found |= {_decoded(name): text for name, text in self._texts(some)}
        return found

    def of(self, names: Sequence[str]) -> Mapping[str, str]:
        """The measurements of the given shapes, as far as they exist."""
        return {name: text for name, text in self._texts(names) if text}

    def _texts(self, names: Sequence[_Name]) -> Iterator[tuple[_Name, str]]:
        """The names that have texts, and these; none of those above MAX_TEXT, which Redis does not send."""
        found = self._run("read_shapes", MAX_TEXT, *names) if names else []
        return ((name, _decoded(text)) for name, text in zip(names, found, strict=True) if text is not None)

    def want(self, names: Sequence[str]) -> None:
        """Adds requested shapes to the list of those to be measured, except shapes that were already tried."""
        if names:
            self._run("want_shapes", MAX_WANTED, KEPT_S, *names)

    @translated()
    def to_measure(self, count: int) -> Sequence[str]:
        """At most `count` shapes to be measured, the most recently requested first."""
        found: Any = self._sound(lambda: self._client.zrevrange(self._key("wanted"), 0, count - 1))
        if damaged := [name for name in found if _decoded(name).encode() != name]:
            self._client.zrem(self._key("wanted"), *damaged)
        return [_decoded(name) for name in found if name not in damaged]

    def begin(self, name: str) -> bool:
        """Marks a shape as tried. Returns True if this worker should measure it, False if another already tried it."""
        return bool(self._run("begin_shape", MAX_MEASURED, KEPT_S, name))

    def keep(self, name: str, text: str) -> None:
        """Stores the measurement of a shape."""
        self._run("keep_shape", MAX_MEASURED, KEPT_S, name, text)

    def put_back(self, name: str) -> None:
        """Returns a shape whose measurement was begun here but interrupted to the list."""
        self._run("put_back_shape", MAX_WANTED, KEPT_S, name)

    @translated()
    def is_known(self) -> bool:
        """Whether any worker has listed or tried a shape under this model's name."""
        return bool(self._client.exists(*map(self._key, ("measured", "wanted"))))

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

    def _run(self, script: str, *args: str | bytes | int) -> Any:
        return self._sound(lambda: self._scripts.run(script, self._model, *args))

    def _sound(self, ask: Callable[[], Any]) -> Any:
        """Redis' answer. Keys that something else made are removed first: nothing could ever be kept there."""
        try:
            return ask()
        except redis.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        log.error("what was measured for auto is not of its type in Redis, and is dropped", model=self._model)
        self._client.unlink(*map(self._key, ("measured", "wanted")), f"{self._key('measured')}:age")
        return ask()

    def _key(self, kind: str) -> str:
        return f"{self._prefix}{kind}:{self._model}"


def _decoded(text: bytes) -> str:
    """Damaged bytes become marks, which no shape's name and no measurement has."""
    return text.decode(errors="replace")
