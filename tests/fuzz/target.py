"""What is fuzzed: a parser of bytes that strangers send, and what must come out of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from zlib import crc32

import orjson

from jobs.errors import MatmulError
from service.problems import STATUS

T = TypeVar("T")
MAX_PIECE_BYTES = 97


@dataclass(frozen=True, slots=True)
class Target:
    """`run` reads the bytes. It raises MatmulError where it refuses them, and AssertionError where what it read is not
    what its encoder writes. `seeds` are inputs that it takes. `refusals` are errors of the server's side that it may
    raise: beside them all must be the caller's."""

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()  # that the format has
    refusals: tuple[type[MatmulError], ...] = ()
    max_bytes: int = 4096


def takes(target: Target, data: bytes) -> bool:
    """Whether the target takes it. Raises what a parser must not: any error but those of the tree, or one whose
    sentence cannot be sent."""
    try:
        target.run(data)
    except MatmulError as error:
        assert STATUS[type(error)] < 500 or isinstance(error, target.refusals), repr(error)
        assert error.detail.endswith((".", "?")), error.detail
        orjson.dumps([error.detail, error.field])
        return False
    return True


def pieces(data: bytes) -> Iterator[bytes]:
    """The data as a network may cut it: the same data is cut the same way."""
    size = 1 + crc32(data) % MAX_PIECE_BYTES
    return (data[at : at + size] for at in range(0, len(data), size))


def same_however_cut(read: Callable[[Iterable[bytes]], T], data: bytes) -> T:
    """What `read` makes of the data. It must not matter in which pieces that comes. Raises what `read` raises."""
    whole, cut = _outcome(read, [data]), _outcome(read, pieces(data))
    if isinstance(whole, MatmulError):
        assert isinstance(cut, MatmulError) and (cut.type, cut.detail) == (whole.type, whole.detail), (whole, cut)
        raise whole
    assert whole == cut, (whole, cut)
    return whole


def _outcome(read: Callable[[Iterable[bytes]], T], feed: Iterable[bytes]) -> T | MatmulError:
    try:
        return read(feed)
    except MatmulError as error:
        return error


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waits")
