"""A request as its parts, which mutations change one by one, and as bytes on the wire."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["none", "json", "npy", "safetensors", "multipart", "urlencoded", "octets"]
Framing = Literal["length", "chunked", "as told"]


@dataclass
class Request:
    """`body` is of that form. `framing` says how the body's end is told: by its length, in chunks, or by the headers
    alone, which may then lie."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    form: Form = "none"
    framing: Framing = "length"
    mutations: list[str] = field(default_factory=list)

    def copy(self) -> Request:
        return dataclasses.replace(self, headers=list(self.headers), mutations=list(self.mutations))

    def set_header(self, name: bytes, value: bytes) -> None:
        self.headers = [header for header in self.headers if header[0].lower() != name.lower()] + [(name, value)]

    def head(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.method.encode("latin-1"), self.target)]
        lines += [b"%s: %s" % header for header in self.headers]
        if self.framing == "length" and (self.body or self.method not in ("GET", "HEAD", "DELETE")):
            lines.append(b"Content-Length: %d" % len(self.body))
        elif self.framing == "chunked":
            lines.append(b"Transfer-Encoding: chunked")
        return b"\r\n".join([*lines, b"", b""])

    def wire(self, rng: random.Random) -> bytes:
        if self.framing != "chunked":
            return self.head() + self.body
        chunks, rest = [], self.body
        while rest:
            size = rng.randint(1, len(rest))
            chunks.append(b"%x\r\n%s\r\n" % (size, rest[:size]))
            rest = rest[size:]
        return self.head() + b"".join(chunks) + b"0\r\n\r\n"
