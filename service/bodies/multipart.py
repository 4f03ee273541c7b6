"""A push parser for multipart/form-data (RFC 7578): it is fed bytes as they arrive and reports the begin, contents and
end of each part.

It looks for the boundary with one search, so a large part costs no Python work per byte, and it holds back only what
might be the beginning of a boundary.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from jobs.errors import MalformedBody
from service.bodies.piece import Piece, Text, find, text_of

MAX_HEADER_BYTES = 8 << 10  # of one part, and of a preamble before the first
MAX_PADDING_BYTES = 64  # behind a boundary
BEFORE_FIRST = b"\r\n"  # the first delimiter has no line before it
READ_HEADERS = frozenset({"content-disposition", "content-transfer-encoding", "content-type"})
_PARAMETER = re.compile(r';\s*([!#-\'*+.^-`|~\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))', re.ASCII)
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


class Part(ABC):
    """Takes one part's contents."""

    @abstractmethod
    def write(self, data: bytes | memoryview) -> None:
        """Takes the next bytes. The buffer belongs to the caller: copy what is to be kept."""

    @abstractmethod
    def end(self) -> None: ...


class MultipartParser:
    """Calls `open_part` with each part's name and media type (None where it gives none), and feeds what that returns.

    Raises MalformedBody for a body that is not multipart or ends early.
    """

    def __init__(self, boundary: str, open_part: Callable[[str, str | None], Part]) -> None:
        self._open_part: Callable[[str, str | None], Part] | None = open_part
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        self._first = self._delimiter[len(BEFORE_FIRST) :]
        self._state: Literal["preamble", "delimiter", "headers", "body", "epilogue"] = "preamble"
        self._kept = BEFORE_FIRST
        self._part: Part | None = None
        self._preamble_bytes = 0

    def feed(self, data: Piece) -> None:
        at = 0
        if self._state == "preamble" and self._kept == BEFORE_FIRST and data[: len(self._first)] == self._first:
            self._kept, self._state, at = b"", "delimiter", len(self._first)  # as usual; nothing is copied
        if self._kept:
            data, self._kept = self._kept + data, b""
        text, view = text_of(data), memoryview(data)
        while at < len(view) and self._state != "epilogue":
            if self._state in ("preamble", "body"):
                at = self._to_delimiter(text, view, at)
            elif self._state == "delimiter":
                at = self._after_delimiter(view, at)
            else:
                at = self._headers(text, view, at)

    def finish(self) -> None:
        if self._state == "preamble":
            raise MalformedBody("The body does not hold the boundary that Content-Type names.")
        if self._state != "epilogue":
            raise MalformedBody("The multipart body ends before its closing boundary; was it cut off?")

    def close(self) -> None:
        """Drops the references to `open_part` and the last part, which usually belong to the parser's owner."""
        self._open_part = self._part = None

    # Each of these methods parses from `at` on, and returns where the rest begins.
    def _to_delimiter(self, text: Text, view: memoryview, at: int) -> int:
        found = find(text, self._delimiter, at, len(view))
        if found >= 0:
            self._contents(view[at:found])
            self._end_part()
            self._state = "delimiter"
            return found + len(self._delimiter)
        kept_from = _possible_start(text, at, len(view), self._delimiter)
        self._contents(view[at:kept_from])
        return self._keep(view, kept_from)

    def _contents(self, data: memoryview) -> None:
        if self._part is None:
            self._preamble_bytes += len(data)
        elif data:
            self._part.write(data)
        if self._preamble_bytes > MAX_HEADER_BYTES:
            raise MalformedBody("The body does not begin with the boundary that Content-Type names.")

    def _end_part(self) -> None:
        if self._part is not None:
            self._part.end()
            self._part = None

    def _after_delimiter(self, view: memoryview, at: int) -> int:
        padded = bytes(view[at : at + MAX_PADDING_BYTES])
        at += len(padded) - len(padded.lstrip(b" \t"))  # of the transport's (RFC 2046, section 5.1.1)
        mark = bytes(view[at : at + 2])
        if len(mark) < 2:
            return self._keep(view, at)
        if mark == b"--":
            self._state = "epilogue"
            return len(view)
        if mark != b"\r\n":
            raise MalformedBody("A multipart boundary must be followed by a line break or by two hyphens.")
        self._state = "headers"
        return at  # the line break is not consumed: it may also end an empty header block

    def _headers(self, text: Text, view: memoryview, at: int) -> int:
        end = text.find(b"\r\n\r\n", at, len(view))
        if end < 0 or end - at > MAX_HEADER_BYTES:
            if len(view) - at > MAX_HEADER_BYTES:
                raise MalformedBody(f"The headers of a part may have {MAX_HEADER_BYTES} bytes.")
            return self._keep(view, at)
        assert self._open_part is not None, "it is not closed"
        self._part = self._open_part(*_read_headers(bytes(view[at + 2 : end])))
        self._state = "body"
        return end + 4

    def _keep(self, view: memoryview, at: int) -> int:
        self._kept = bytes(view[at:])
        return len(view)


def boundary_of(content_type: str) -> str:
    """The boundary parameter of a multipart Content-Type. Raises MalformedBody."""
    boundary = _parameters(content_type).get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise MalformedBody("multipart/form-data needs a boundary of 1 to 70 characters.", field="Content-Type")
    return boundary


def _parameters(value: str) -> dict[str, str]:
    """The parameters of a header's value, by name in lower case; the first of a repeated name counts."""
    found: dict[str, str] = {}
    for name, quoted, token in _PARAMETER.findall(value):
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else token)
    return found


def _possible_start(text: Text, begin: int, end: int, delimiter: bytes) -> int:
    """The earliest position from which the remaining bytes could be the beginning of the delimiter; `end` if there is
    none.
    """
    at = text.find(b"\r", max(begin, end - len(delimiter) + 1), end)
    while at >= 0:
        if delimiter.startswith(text[at:end]):
            return at
        at = text.find(b"\r", at + 1, end)
    return end


@lru_cache(maxsize=64)  # every request has the same few headers
def _read_headers(block: bytes) -> tuple[str, str | None]:
    """A part's name and media type. Raises MalformedBody."""
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\r\n"):
        header, _, text = line.partition(":")
        key, value = header.lower(), text.strip()
        if headers.setdefault(key, value) != value and key in READ_HEADERS:
            raise MalformedBody(f"A part has {header} with values that differ; send one.")
    disposition = headers.get("content-disposition", "")
    name = _parameters(disposition).get("name")
    if name is None or disposition.partition(";")[0].strip().lower() != "form-data":
        raise MalformedBody('Every part needs the header `Content-Disposition: form-data; name="…"`.')
    if headers.get("content-transfer-encoding", "binary").lower() not in ("binary", "8bit", "7bit"):
        raise MalformedBody("Parts must be sent as they are, without a transfer encoding.")
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return name, media_type or None
