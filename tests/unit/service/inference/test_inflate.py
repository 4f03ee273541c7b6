"""Compressed bodies: what is in them comes out whole, in bounded pieces, or is refused."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import MalformedBody
from service.bodies.body import MAX_INFLATED_BYTES, Body
from service.bodies.inflate import STEP_BYTES, Inflater
from service.problems import PayloadTooLarge, UnsupportedMediaType

COMPRESS: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress}


def received(data: bytes, encoding: str, pieces: list[int], *, limit_bytes: int = 1 << 30) -> tuple[bytes, int]:
    """The contents of a body received in these pieces, and the largest piece that was passed on. `encoding`: the lines
    of its header, with a bar between them."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in pieces), len(data)]
    messages = [{"type": "http.request", "body": data[begin:end], "more_body": True} for begin, end in pairwise(places)]
    coming = iter([*messages, {"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        return next(coming)

    async def whole() -> tuple[bytes, int]:
        scope = {
            "type": "http",
            "headers": [
                *((b"content-encoding", line.encode()) for line in encoding.split("|")),
                (b"content-length", b"%d" % len(data)),
            ],
        }
        body = Body(scope, receive, limit_bytes=limit_bytes, inflates=True)
        batches = [batch async for batch in body.batches()]
        assert body.ended
        sizes = [len(piece) for batch in batches for piece in batch]
        return b"".join(piece for batch in batches for piece in batch), max(sizes, default=0)

    return asyncio.run(whole())


@given(st.binary(max_size=3000), st.sampled_from(list(COMPRESS)), st.lists(st.integers(0, 4000), max_size=4))
def test_what_went_in_comes_out(data: bytes, encoding: str, pieces: list[int]) -> None:
    assert received(COMPRESS[encoding](data), encoding, pieces)[0] == data


def test_a_bomb_comes_out_in_steps_and_ends_at_the_limit() -> None:
    bomb = gzip.compress(bytes(8 << 20))
    found, largest = received(bomb, "gzip", [])
    assert len(found) == 8 << 20 and largest <= STEP_BYTES
    with pytest.raises(PayloadTooLarge):
        received(bomb, "gzip", [], limit_bytes=(8 << 20) - 1)


def test_no_limit_is_above_that_of_compressed_bodies() -> None:
    stream = zlib.compressobj()
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range((MAX_INFLATED_BYTES >> 20) + 1)) + stream.flush()
    with pytest.raises(PayloadTooLarge):
        received(bomb, "deflate", [], limit_bytes=1 << 40)


@pytest.mark.parametrize("encoding", COMPRESS)
def test_a_damaged_one_is_refused(encoding: str) -> None:
    whole = COMPRESS[encoding](bytes(range(256)) * 8)
    for wrong in (whole[:-1], whole + b"x", b"\x00" + whole, whole[:40] + b"\xff\xff" + whole[42:], b""):
        with pytest.raises(MalformedBody, match="compress it again"):
            received(wrong, encoding, [])


@pytest.mark.parametrize("encoding", ["", "|", "IDENTITY", "|identity"])
def test_one_that_names_no_coding_is_taken_as_it_is(encoding: str) -> None:
    assert received(b"as it is", encoding, [])[0] == b"as it is"


def test_others_are_not_taken() -> None:
    for encoding in ("br", "zstd", "gzip, gzip", "gzip|gzip", "identity|gzip"):
        with pytest.raises(UnsupportedMediaType):
            received(b"", encoding, [])


def test_a_stream_that_needs_nothing_more_says_so() -> None:
    inflater = Inflater("deflate")
    inflater.put(zlib.compress(bytes(STEP_BYTES + 1)))
    assert len(inflater.step()) == STEP_BYTES and not inflater.needs_more()
    assert len(inflater.step()) == 1 and inflater.needs_more()
    inflater.end()
