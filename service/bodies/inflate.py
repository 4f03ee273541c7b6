"""Decompresses bodies, one bounded piece at a time."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from jobs.errors import MalformedBody
from service.bodies.piece import Piece

STEP_BYTES = 256 << 10  # output per step: a KiB of input may expand to a MiB
WINDOW_BITS: Mapping[str, int] = {"gzip": 31, "deflate": 15}  # by content coding; deflate is zlib's format (RFC 9110)


class Inflater:
    """Inflates one body. Raises MalformedBody."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream = zlib.decompressobj(WINDOW_BITS[encoding])
        self._rest = b""
        self._is_drained = True

    def needs_more(self) -> bool:
        """Whether all output of the input so far has been taken."""
        return self._is_drained

    def put(self, data: Piece) -> None:
        """Adds input; allowed only if `needs_more`."""
        if self._stream.eof and data:
            raise self._refusal("goes on after its end")
        self._rest = bytes(data)
        self._is_drained = not data

    def step(self) -> bytes:
        """The next output; may be empty."""
        try:
            piece = self._stream.decompress(self._rest, STEP_BYTES)
        except zlib.error:
            raise self._refusal("is damaged") from None
        if self._stream.unused_data:
            raise self._refusal("goes on after its end")
        self._rest = self._stream.unconsumed_tail
        self._is_drained = self._stream.eof or (not self._rest and len(piece) < STEP_BYTES)
        return piece

    def end(self) -> None:
        """Ends the input. Raises MalformedBody if it is incomplete."""
        if not self._stream.eof:
            raise self._refusal("ends too early")

    def _refusal(self, what: str) -> MalformedBody:
        return MalformedBody(f"The {self._encoding}-encoded body {what}; compress it again.", field="Content-Encoding")
