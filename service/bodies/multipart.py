"""A push parser for multipart/form-data (RFC 7578): bytes in as they come, parts out as they begin, grow and end.

It looks for the boundary with `bytes.find`, so a large part costs no Python per byte, and it keeps back only what might
be the beginning of a boundary.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from jobs.errors import MalformedBody

MAX_HEADER_BYTES = 8 << 10  # of one part, and of what may come before the first
_PARAMETER = re.compile(r';\s*([!#-\'*+.^-`|~\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))', re.ASCII)
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


class Part(ABC):
    """Takes one part's contents."""

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def end(self) -> None: ...


class MultipartParser:
    """Calls `open_part` with each part's name and media type (None where it gives none), and feeds what that returns.

    Raises MalformedBody for a body that is not multipart or ends early.
    """

    def __init__(self, boundary: str, open_part: Callable[[str, str | None], Part]) -> None:
        self._open_part = open_part
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        self._state: Literal["preamble", "delimiter", "headers", "body", "epilogue"] = "preamble"
        self._kept = b"\r\n"  # the first delimiter has no line before it
        self._part: Part | None = None
        self._preamble_bytes = 0

    def feed(self, data: bytes) -> None:
        data = self._kept + data if self._kept else data
        self._kept = b""
        while data and self._state != "epilogue":
            if self._state in ("preamble", "body"):
                data = self._to_delimiter(data)
            elif self._state == "delimiter":
                data = self._after_delimiter(data)
            else:
                data = self._headers(data)

    def finish(self) -> None:
        if self._state == "preamble":
            raise MalformedBody("The body does not hold the boundary that Content-Type names.")
        if self._state != "epilogue":
            raise MalformedBody("The multipart body ends before its closing boundary; was it cut off?")

    def _to_delimiter(self, data: bytes) -> bytes:
        at = data.find(self._delimiter)
        if at >= 0:
            self._contents(data[:at])
            self._end_part()
            self._state = "delimiter"
            return data[at + len(self._delimiter) :]
        self._kept = data[_possible_start(data, self._delimiter) :]
        self._contents(data[: len(data) - len(self._kept)] if self._kept else data)
        return b""

    def _contents(self, data: bytes) -> None:
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

    def _after_delimiter(self, data: bytes) -> bytes:
        if len(data) < 2:
            return self._keep(data)
        if data.startswith(b"--"):
            self._state = "epilogue"
            return b""
        if not data.startswith(b"\r\n"):
            raise MalformedBody("A multipart boundary must be followed by a line break or by two hyphens.")
        self._state = "headers"
        return data  # its line break stays: it ends an empty header block as well

    def _headers(self, data: bytes) -> bytes:
        end = data.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEADER_BYTES:
            if len(data) > MAX_HEADER_BYTES:
                raise MalformedBody(f"The headers of a part may have {MAX_HEADER_BYTES} bytes.")
            return self._keep(data)
        self._part = self._open_part(*_read_headers(data[2:end]))
        self._state = "body"
        return data[end + 4 :]

    def _keep(self, data: bytes) -> bytes:
        self._kept = data
        return b""


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


def _possible_start(data: bytes, delimiter: bytes) -> int:
    """Where the longest end of `data` begins that could be the beginning of the delimiter; its length if none."""
    at = data.find(b"\r", max(0, len(data) - len(delimiter) + 1))
    while at >= 0:
        if delimiter.startswith(data[at:]):
            return at
        at = data.find(b"\r", at + 1)
    return len(data)


@lru_cache(maxsize=64)  # the same few words come with every request
def _read_headers(block: bytes) -> tuple[str, str | None]:
    """A part's name and media type. Raises MalformedBody."""
    headers: dict[str, str] = {}
    for line in block.decode("utf-8", "replace").split("\r\n"):
        header, _, value = line.partition(":")
        headers.setdefault(header.lower(), value.strip())
    disposition = headers.get("content-disposition", "")
    name = _parameters(disposition).get("name")
    if name is None or disposition.partition(";")[0].strip().lower() != "form-data":
        raise MalformedBody('Every part needs the header `Content-Disposition: form-data; name="…"`.')
    if headers.get("content-transfer-encoding", "binary").lower() not in ("binary", "8bit", "7bit"):
        raise MalformedBody("Parts must be sent as they are, without a transfer encoding.")
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return name, media_type or None
