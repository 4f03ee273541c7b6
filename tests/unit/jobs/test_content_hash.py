"""The hash that names a matrix: the same as a sha256 taken at once, but in a thread of its own."""

from __future__ import annotations

import hashlib
import os
from threading import Event, current_thread

import pytest

from jobs.matrices.content_hash import GROUP_BYTES, ContentHash
from jobs.matrices.interface import content_hasher

DATA = os.urandom(5 * GROUP_BYTES + 17)
LONG_S = 60.0


@pytest.mark.parametrize("size", [1000, 65536, GROUP_BYTES, 3 * GROUP_BYTES - 1, len(DATA)])
def test_it_is_the_sha256_of_all_pieces(size: int) -> None:
    taken = ContentHash(b"begin")
    for start in range(0, len(DATA), size):
        taken.update(memoryview(DATA)[start : start + size])
    assert taken.hexdigest() == hashlib.sha256(b"begin" + DATA).hexdigest()


def test_hexdigest_can_be_called_before_the_end() -> None:
    taken = content_hasher("float32", (2, 3))
    begin = b"float32:2x3\n"
    assert taken.hexdigest() == hashlib.sha256(begin).hexdigest()
    taken.update(DATA)
    taken.update(b"more")
    assert taken.hexdigest() == hashlib.sha256(begin + DATA + b"more").hexdigest()


@pytest.mark.parametrize("size", [1000, GROUP_BYTES])
def test_a_buffer_may_be_used_again(size: int) -> None:
    taken, expected, buffer = ContentHash(b""), hashlib.sha256(), bytearray(size)
    for fill in range(4):
        buffer[:] = bytes([fill]) * size
        taken.update(buffer)
        expected.update(buffer)
    buffer[:] = bytes(size)
    assert taken.hexdigest() == expected.hexdigest()


def test_update_returns_while_earlier_bytes_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, threads, take = Event(), [], ContentHash._take

    def slow_take(self: ContentHash, pieces: list[bytes | bytearray | memoryview]) -> None:
        threads.append(current_thread())
        assert go_on.wait(LONG_S)
        take(self, pieces)

    monkeypatch.setattr(ContentHash, "_take", slow_take)
    taken = ContentHash(b"")
    taken.update(DATA)
    taken.update(b"more")
    go_on.set()
    assert taken.hexdigest() == hashlib.sha256(DATA + b"more").hexdigest()
    assert threads[0] is not current_thread()


def test_an_error_in_the_hashing_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: ContentHash, pieces: list[bytes | bytearray | memoryview]) -> None:
        raise MemoryError

    monkeypatch.setattr(ContentHash, "_take", failing)
    taken = ContentHash(b"")
    taken.update(DATA)
    with pytest.raises(MemoryError):
        taken.hexdigest()
