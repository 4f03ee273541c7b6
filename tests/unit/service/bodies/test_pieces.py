"""Pieces of a body: what is sought in them, and what of them is kept without a copy."""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.bodies import piece
from service.bodies.multipart import MultipartParser, Part
from service.bodies.piece import LONG_BYTES, Text, find
from service.bodies.uploads import kept

WANTED = b"\r\n--edge"


def mapped(data: bytes) -> mmap:
    text = mmap(-1, len(data) + 1)
    text.write(data)
    return text


@given(
    parts=st.lists(st.sampled_from([WANTED, WANTED[:-1], b"\r\n", b"\0", b"x" * LONG_BYTES]), max_size=6),
    begin=st.integers(0, 50),
    short_of=st.integers(0, 12),
    kind=st.sampled_from([bytes, bytearray, mapped]),
)
def test_is_found_where_python_finds_it(
    parts: list[bytes], begin: int, short_of: int, kind: Callable[[bytes], Text]
) -> None:
    text = kind(b"".join(parts))
    end = max(begin, len(text) - short_of)
    end = min(end, len(text))
    assert find(text, WANTED, min(begin, end), end) == text.find(WANTED, min(begin, end), end)


def test_what_begins_before_the_end_and_goes_on_behind_it_is_not_found() -> None:
    text = bytes(2 * LONG_BYTES) + WANTED
    assert find(text, WANTED, 1, len(text)) == 2 * LONG_BYTES
    assert find(text, WANTED, 1, len(text) - 1) == -1


def test_python_seeks_where_the_system_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece, "_memmem", None)
    assert find(bytes(LONG_BYTES) + WANTED, WANTED, 3, LONG_BYTES + len(WANTED)) == LONG_BYTES


def test_a_body_that_begins_with_its_boundary_is_not_copied() -> None:
    written: list[bytes | memoryview] = []

    class Keeping(Part):
        def write(self, data: bytes | memoryview) -> None:
            written.append(data)

        def end(self) -> None: ...

    body = b'--edge\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + bytes(LONG_BYTES) + WANTED + b"--"
    MultipartParser("edge", lambda name, media_type: Keeping()).feed(body)
    assert [view.obj is body for view in written if isinstance(view, memoryview)] == [True]


def test_only_what_cannot_change_and_is_most_of_its_object_is_kept_as_it_is() -> None:
    whole, buffer = bytes(range(100)), bytearray(range(100))
    assert kept(memoryview(whole)[:50]) == whole[:50]
    assert isinstance(kept(memoryview(whole)[:50]), memoryview)
    assert isinstance(kept(memoryview(whole)[:49]), bytes), "it would hold on to more than itself"
    copy = kept(memoryview(buffer))
    buffer[0] = 7
    assert copy == whole, "the buffer is used again"
