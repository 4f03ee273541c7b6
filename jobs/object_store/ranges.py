"""Fetches ranges of objects straight into the caller's memory, over reusable connections.

obstore collects each range in newly allocated memory, which is half the cost of a fetch. Here the kernel copies
received bytes into the caller's memory, and nothing is copied after that. Only over plain HTTP: with TLS Python
receives 16 KiB at a time, and threads wait for the GIL longer than decryption takes.
"""

from __future__ import annotations

import re
import socket
import struct
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

import httptools

PIECE_BYTES = 1 << 20  # small enough to be in a processor's cache still when its digests are taken
MAX_HEAD_BYTES = 65536
_CONTENT_RANGE = re.compile(rb"bytes (\d+)-(\d+)/(\d+)")


class NotServed(Exception):
    """The server cannot serve the range this way. Bytes received so far are valid; the rest may be fetched
    otherwise.
    """


class OtherSize(Exception):
    """The object does not have the expected size."""


class RangeReader:
    """Safe to share between threads."""

    def __init__(self, silent_s: float, range_s: float) -> None:
        """`silent_s`: longest time without data; `range_s`: longest time for a whole range."""
        self._silent_s, self._range_s = silent_s, range_s
        self._has_proxy = "http" in getproxies()
        self._idle: deque[_Connection] = deque()

    def pieces(self, url: str, start: int, buffer: memoryview, size: int) -> Iterator[int]:
        """Fills the buffer from an object of `size` bytes, beginning at `start`; yields the number of bytes received so
        far. Raises TimeoutError, NotServed, OtherSize.
        """
        target, deadline = urlsplit(url), time.monotonic() + self._range_s
        if target.scheme != "http" or self._has_proxy:
            raise NotServed
        try:
            with self._asked(target, start, start + buffer.nbytes, deadline) as (connection, reply):
                reply.check(start, start + buffer.nbytes, size)
                got = len(reply.body)
                buffer[:got] = reply.body
                if got and got == buffer.nbytes:  # the whole body came with the head
                    yield got
                while got < buffer.nbytes:
                    _check(deadline)
                    got += connection.receive(buffer[got : got - got % PIECE_BYTES + PIECE_BYTES])
                    yield got
                reply.is_whole = True
        except TimeoutError:
            raise
        except (OSError, httptools.HttpParserError) as error:
            raise NotServed from error

    @contextmanager
    def _asked(
        self, target: SplitResult, start: int, stop: int, deadline: float
    ) -> Iterator[tuple[_Connection, _Reply]]:
        """Requests a range. The connection is kept if the whole reply was read."""
        path = f"{target.path}?{target.query}"
        request = f"GET {path} HTTP/1.1\r\nHost: {target.netloc}\r\nRange: bytes={start}-{stop - 1}\r\n\r\n".encode()
        connection, reply = self._answered(target, request, deadline)
        try:
            yield connection, reply
        finally:
            if reply.is_whole and reply.parser.should_keep_alive():
                self._idle.append(connection)
            else:
                connection.socket.close()

    def _answered(self, target: SplitResult, request: bytes, deadline: float) -> tuple[_Connection, _Reply]:
        """Sends the request over an idle connection, or over a new one if there is none or the server has closed it."""
        while True:
            try:
                connection, is_new = self._idle.pop(), False
            except IndexError:
                connection, is_new = _Connection(target, self._silent_s), True
            try:
                return connection, connection.ask(request, deadline)
            except (OSError, httptools.HttpParserError) as error:
                connection.socket.close()
                if is_new or isinstance(error, TimeoutError):
                    raise


def _check(deadline: float) -> None:
    """Raises TimeoutError once it is past `deadline`, in the time of `time.monotonic`."""
    if time.monotonic() > deadline:
        raise TimeoutError


class _Connection:
    """A connection with a blocking socket, whose timeouts the kernel enforces. All methods raise OSError."""

    def __init__(self, target: SplitResult, silent_s: float) -> None:
        self.socket = socket.create_connection((target.hostname, target.port or 80), silent_s)
        self.socket.settimeout(None)
        seconds = struct.pack("ll", int(silent_s), int(silent_s % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, seconds)
        weakref.finalize(self, self.socket.close)

    def ask(self, request: bytes, deadline: float) -> _Reply:
        """Raises HttpParserError, and TimeoutError if the head has not come by `deadline`."""
        self.socket.sendall(request)
        head, taken = bytearray(), memoryview(bytearray(4096))
        while (end := head.find(b"\r\n\r\n")) < 0:
            _check(deadline)
            if len(head) > MAX_HEAD_BYTES:
                raise httptools.HttpParserError("the reply has no end of its head")
            head += taken[: self.receive(taken, flags=0)]
        return _Reply(bytes(head[: end + 4]), bytes(head[end + 4 :]))

    def receive(self, buffer: memoryview, *, flags: int = socket.MSG_WAITALL) -> int:
        """Receives at most as many bytes as the buffer holds; never 0."""
        try:
            count = self.socket.recv_into(buffer, flags=flags)
        except BlockingIOError:
            raise TimeoutError from None
        if not count:
            raise ConnectionError("the server ended the connection")
        return count


class _Reply:
    def __init__(self, head: bytes, body: bytes) -> None:
        """`body` came with the head."""
        self.body, self.is_whole = body, False
        self._fields: dict[bytes, bytes] = {}
        self.parser = httptools.HttpResponseParser(self)
        self.parser.feed_data(head)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._fields[name.lower()] = value

    def check(self, start: int, stop: int, size: int) -> None:
        """Checks that the reply is this range of an object of `size` bytes, not in chunked encoding. Raises NotServed,
        OtherSize.
        """
        said = _CONTENT_RANGE.fullmatch(self._fields.get(b"content-range", b""))
        if self.parser.get_status_code() != 206 or said is None:
            raise NotServed
        if int(said[3]) != size:
            raise OtherSize
        is_plain = self._fields.get(b"content-length") == b"%d" % (stop - start) and len(self.body) <= stop - start
        if not is_plain or (int(said[1]), int(said[2]) + 1) != (start, stop):
            raise NotServed
