"""A server of one object whose answers to requests for ranges a test chooses."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_ASKED = re.compile(rb"range: bytes=(\d+)-(\d+)", re.IGNORECASE)
PLAIN = "plain"  # as it should be; what each other answer is, `_Handler._answer` says


class RangeServer(socketserver.ThreadingTCPServer):
    """Gives `answers` in turn, and after the last one plain ones."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, content: bytes, answers: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.answers = content, list(answers)
        self.connections = 0
        self.asked: list[tuple[int, int]] = []  # the ranges
        self.library_asked = 0  # of them, by a client that says what it is, as obstore does
        self.is_over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: RangeServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def handle(self) -> None:
        while (head := self._head()) and (asked := _ASKED.search(head)):
            start, stop = int(asked[1]), int(asked[2]) + 1
            self.server.asked.append((start, stop))
            self.server.library_asked += b"user-agent" in head.lower()
            if not self._answer(self.server.answers.pop(0) if self.server.answers else PLAIN, start, stop):
                return

    def _head(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()).strip():
            lines.append(line)
        return b"".join(lines)

    def _answer(self, how: str, start: int, stop: int) -> bool:
        """Whether the connection goes on."""
        content = self.server.content
        body = content[start:stop]
        fields = {
            "Content-Length": f"{len(body)}",
            "Content-Range": f"bytes {start}-{stop - 1}/{len(content)}",
            "Last-Modified": "Thu, 26 Nov 2026 10:00:00 GMT",
            "ETag": '"1"',
        }
        status = "206 Partial Content"
        match how:
            case "whole":
                status, body = "200 OK", content
                fields |= {"Content-Length": f"{len(body)}"}
                del fields["Content-Range"]
            case "busy":
                status, body = "503 Slow Down", b""
                fields = {"Content-Length": "0"}
            case "another range":
                fields["Content-Range"] = f"bytes {start + 1}-{stop}/{len(content)}"
            case "another length":
                fields["Content-Length"] = f"{len(body) - 1}"
            case "larger":
                fields["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content) + 1}"
            case "chunked":
                del fields["Content-Length"]
                fields["Transfer-Encoding"] = "chunked"
                body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            case "half":
                body = body[: len(body) // 2]
            case "nonsense":
                status = "abc"
            case "silent":
                self.server.is_over.wait()
                return False
            case "trickle":
                body = b""
            case "endless head":
                self._drip(b"HTTP/1.1 206 Partial Content\r\nX-Never-Ends: ")
                return False
        said = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.wfile.write(f"HTTP/1.1 {status}\r\n{said}\r\n".encode() + body)
        if how == "trickle":
            self._drip(b"")
        return how not in ("half", "closed", "trickle")

    def _drip(self, first: bytes) -> None:
        """Sends a byte at a time, for ever."""
        self.wfile.write(first)
        while not self.server.is_over.wait(0.005):
            self.wfile.write(b"0")


@contextmanager
def serving(content: bytes, *answers: str) -> Iterator[RangeServer]:
    with RangeServer(content, answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.is_over.set()
            server.shutdown()
            thread.join()
