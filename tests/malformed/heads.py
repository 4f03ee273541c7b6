"""Mutations of what comes before the body: method, target, headers, and how the body's end is told."""

from __future__ import annotations

import random

from tests.malformed.requests import Request
from tests.malformed.values import BYTES, NUMBERS, TEXTS, mangled

METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PRI", "get", "G\xcbT", "")
VALUES: dict[bytes, tuple[bytes, ...]] = {
    b"Accept": (b"*/*;q=0", b"application/x-npy;q=2", b"a", b"," * 500, b"text/html, application/x-npy;q=0.0001", b";"),
    b"Content-Type": (
        *(b"", b"text/plain", b"application/json; charset=utf-16", b"multipart/form-data", b"application/x-npy"),
        *(
            b"multipart/form-data; boundary=",
            b"multipart/form-data; boundary=" + b"x" * 500,
            b"a/b/c",
            b"application/pickle",
        ),
        *(b"application/x-safetensors", b"application/octet-stream", b"application/x-www-form-urlencoded", b"*/*"),
    ),
    b"Content-Encoding": (b"gzip", b"deflate", b"br", b"identity", b"gzip, gzip", b"\xff"),
    b"Prefer": (
        b"wait=-1",
        b"wait=1e9",
        b"wait=",
        b"wait=0, wait=1",
        b"respond-async, wait=0",
        b"wait=\xd9\xa3",
        b"wait=0.5",
    ),
    b"Range": (
        *(
            b"bytes=0-0",
            b"bytes=-1",
            b"bytes=5-2",
            b"bytes=0-0,-1",
            b"bytes=99999999999999999999-",
            b"lines=1-2",
            b"bytes=",
        ),
        b"bytes=" + b"0-1," * 2000,
    ),
    b"If-Range": (b'"x"', b"W/", b"Mon, 99 Foo 2026 00:00:00 GMT", b"\xff"),
    b"If-None-Match": (b"*", b'"', b'W/"a", "b', b'"' + b"x" * 9000 + b'"', b","),
    b"Idempotency-Key": (b"", b"k", b"k" * 300, b"\xff", b'"quoted"', b"a\tb"),
    b"Last-Event-ID": (b"0", b"-1", b"99999999999999-0", b"x", b"1-2-3", b"\xff"),
    b"Authorization": (
        b"Bearer",
        b"Bearer ",
        b"Bearer mm_x_y",
        b"Basic eDp5",
        b"Bearer \xff",
        b"Digest a=b",
        b"Bearer " + b"a" * 9000,
    ),
    b"Cookie": (b"matmul_session=x", b"matmul_session=", b";;;=", b"a=b; " * 500, b"\xff"),
    b"Origin": (
        b"null",
        b"http://[",
        b"http://a:b",
        b"http://127.0.0.1:99999",
        b"//",
        b"http://\xc2\xbd",
        b"http://evil.example",
    ),
    b"Sec-Fetch-Site": (b"cross-site", b"same-origin", b"none", b"x"),
    b"Host": (b"", b"evil.example", b"127.0.0.1:x", b"[::1", b"a b", b"localhost:99999999", b"\xff"),
    b"Expect": (b"100-continue", b"x"),
    b"Upgrade": (b"websocket", b"h2c", b""),
    b"Connection": (b"close", b"keep-alive, Upgrade", b"\xff", b"close, close"),
    b"X-Request-ID": (b"", b"x" * 9000, b"\xff", b"a\tb"),
    b"X-Matmul-Shape": (b"1,1", b"1;1", b"-1,1", b"1e3,1", b"2" * 400, b",", b"\xd9\xa3,1", b"1,1,1,1,1"),
    b"X-Matmul-Dtype": (b"float32", b"object", b"<f4", b"\xff", b"float8_e4m3"),
    b"Accept-Encoding": (b"gzip", b"gzip;q=x", b"*;q=0"),
    b"Accept-Language": (b"*", b"\xff", b"en-" * 3000),
    b"Forwarded": (b"for=1.2.3.4", b"for=\xff"),
    b"traceparent": (b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00", b"ff-x", b"\xff"),
}
QUERY_NAMES = (
    *(b"state", b"kind", b"kernel", b"q", b"limit", b"cursor", b"dry_run", b"format", b"x", b"owner", b"", b"after"),
    *(b"sort", b"page", b"device", b"baseline", b"names", b"wait"),
)
FRAMINGS: tuple[list[tuple[bytes, bytes]], ...] = (
    [(b"Content-Length", b"-1")],
    [(b"Content-Length", b"+5")],
    [(b"Content-Length", b"0x10")],
    [(b"Content-Length", b"99999999999999999999")],
    [(b"Content-Length", b"5"), (b"Content-Length", b"6")],
    [(b"Content-Length", b"5"), (b"Transfer-Encoding", b"chunked")],
    [(b"Transfer-Encoding", b"xchunked")],
    [(b"Transfer-Encoding", b"chunked, gzip")],
    [(b"Transfer-Encoding", b"chunked"), (b"Transfer-Encoding", b"chunked")],
    [(b"Content-Length", b"3")],
    [(b"Content-Length", b"1000000")],
    [(b"Content-Length", b"99999999999")],
    [(b"Content-Length ", b"5")],
    [(b"Content-Length", b"")],
    [],
)


def with_another_header(request: Request, rng: random.Random) -> None:
    """Set, added a second time, or taken away; known ones with values that their parsers may stumble over."""
    name = rng.choice((*VALUES, b"X-Unknown"))
    value = rng.choice(VALUES.get(name, BYTES) if rng.random() < 0.8 else BYTES)
    if rng.random() < 0.1 and request.headers:
        request.headers.pop(rng.randrange(len(request.headers)))
    elif rng.random() < 0.2:
        request.headers.append((name, value))
    else:
        request.set_header(name, value)


def with_headers_spoilt(request: Request, rng: random.Random) -> None:
    """So that they are no headers any more, or too many."""
    match rng.randrange(5):
        case 0:
            request.headers.append((rng.choice((b"", b" x", b"x y", b"x\x00", b"\xff", b"x" * 70_000)), b"1"))
        case 1:
            request.headers.append(
                (b"x", rng.choice((b"a\rb", b"a\nb: c", b"a\r\n b", b"\x00", b"\x7f", b"y" * 70_000)))
            )
        case 2:
            request.headers += [(b"x-%d" % number, b"1") for number in range(rng.choice((150, 250, 3000)))]
        case 3 if request.headers:
            at = rng.randrange(len(request.headers))
            name, value = request.headers[at]
            request.headers[at] = mangled(name, rng), value
        case _:
            request.set_header(b"Host", b"")


def with_another_target(request: Request, rng: random.Random) -> None:
    """Segments changed, added or encoded; queries with odd names and values."""
    path, _, query = request.target.partition(b"?")
    segments = path.split(b"/")
    match rng.randrange(7):
        case 0 | 1:
            at = rng.randrange(len(segments))
            texts = [text.encode("utf-8", "replace").replace(b" ", b"%20") for text in TEXTS]
            segments[at] = rng.choice([*texts, b"%2e%2e", b"%00", b"%", b"%c0%af", b"..", b";x=1", b"%ff"])
        case 2:
            segments.append(rng.choice((b"", b"x", b"..", b"results", b"product")))
        case 3:
            path = mangled(path, rng)
            segments = path.split(b"/")
        case _:
            values = (*BYTES, *(str(number).encode() for number in NUMBERS), b"succeeded", b"true", b"%ff", b"csv")
            more = [b"%s=%s" % (rng.choice(QUERY_NAMES), rng.choice(values)) for _ in range(rng.randint(1, 3))]
            query = b"&".join([*([query] if query else []), *more])
    request.target = (b"/".join(segments) or b"/") + (b"?" + query if query else b"")


def with_another_method(request: Request, rng: random.Random) -> None:
    request.method = rng.choice(METHODS)


def with_another_framing(request: Request, rng: random.Random) -> None:
    """Headers that lie about the body, or chunks."""
    if rng.random() < 0.3:
        request.framing = "chunked"
        return
    request.framing = "as told"
    request.headers += rng.choice(FRAMINGS)
    if rng.random() < 0.4:
        chunks = (
            b"0\r\n\r\n",
            b"ZZ\r\n",
            b"5\r\n{}\r\n",
            b"2;x\r\n{}\r\n0\r\n\r\n",
            b"-1\r\n",
            b"ffffffffffffffff\r\n",
            b"2\n{}\n0\n\n",
        )
        request.body = rng.choice(chunks)
