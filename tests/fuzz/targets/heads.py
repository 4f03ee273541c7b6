"""Request heads: headers, queries, and forms of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.types import Message

from jobs.ledger.codec import cursor_after, cursor_seq, event_place
from jobs.matrices.indexed_store import check_id
from jobs.models import job_of_product, product_id
from service import error_handlers
from service.bodies.body import Body
from service.bodies.form import read_form
from service.bodies.multipart import boundary_of
from service.bodies.reader import accepted_type
from service.dashboard.benchmarks.compare import ResultOption
from service.dashboard.benchmarks.results import ResultsPageQuery
from service.dashboard.jobs.bulk import Many
from service.dashboard.jobs.list import ListQuery
from service.dashboard.session import own_path
from service.http.conditions import none_match, range_applies
from service.http.idempotency import key_of
from service.http.negotiation import FILE_OFFERS, choose_type
from service.http.origins import origin_of, place_of
from service.http.preferences import parse_wait
from service.http.ranges import parse_range
from service.routes.benchmarks import NewBenchmarkQuery, ResultsQuery
from service.routes.jobs import JobQuery
from tests.fuzz.target import Target, driven

TOTAL_BYTES, MAX_WAIT_S = 1000, 60.0
JOB = "job_" + "0" * 32
Scope = dict[str, Any]


def scope_of(headers: Sequence[tuple[bytes, bytes]] = (), query: bytes = b"", path: str = "/v1/jobs") -> Scope:
    return {
        **{"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http"},
        **{"http_version": "1.1", "headers": [*headers], "query_string": query, "state": {}},
        **{"server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 9)},
    }


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


# ---- headers, one at a time ----
def _accept(value: str) -> None:
    assert choose_type(value, FILE_OFFERS) in FILE_OFFERS


def _prefer(value: str) -> None:
    assert 0 <= parse_wait(value, default_s=1.0, max_s=MAX_WAIT_S).seconds <= MAX_WAIT_S


def _range(value: str) -> None:
    if (found := parse_range(value, TOTAL_BYTES)) is not None:
        assert 0 <= found[0] < found[1] <= TOTAL_BYTES


def _idempotency_key(value: str) -> None:
    key_of(Request(scope_of([(b"idempotency-key", value.encode("latin-1"))])))


def _length(value: str) -> None:
    body = Body(scope_of([(b"content-length", value.encode("latin-1"))]), _nothing, limit_bytes=1 << 20)
    assert body.declared_bytes is not None and 0 <= body.declared_bytes <= 1 << 20


def _cursor(value: str) -> None:
    seq = cursor_seq(value)
    assert cursor_seq(cursor_after(seq)) == seq


def _event(value: str) -> None:
    assert all(0 <= part < 1 << 64 for part in event_place(value))


def _matrix_id(value: str) -> None:
    check_id(value)
    assert value.isascii() and "/" not in value and "." not in value
    if (found := job_of_product(value)) is not None:
        assert job_of_product(product_id(*found)) == found


def _next(value: str) -> None:
    assert own_path(value).startswith("/") and not own_path(value).startswith(("//", "/\\"))


HEADERS: Mapping[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "accept": (_accept, ("application/x-npy;q=0.5, */*;q=0.1", "application/*", "application/json; charset=utf-8")),
    "prefer": (_prefer, ("wait=5, respond-async", 'wait="7"; x=y, handling=strict')),
    "range": (_range, ("bytes=0-9", "bytes=-5", "bytes = 990-")),
    "if-none-match": (lambda value: none_match(value, '"e"'), ('W/"e", "f"', "*")),
    "if-range": (lambda value: range_applies(value, '"e"'), ('"e"',)),
    "idempotency-key": (_idempotency_key, ("a key",)),
    "content-length": (_length, ("12", "1048576")),
    "content-type": (boundary_of, ('multipart/form-data; charset="a\\"b"; boundary="X y"', "a/b;boundary=X")),
    "media-type": (lambda value: accepted_type(value, "application/json"), ("Application/JSON ; charset=utf-8",)),
    "origin": (origin_of, ("http://localhost:8000", "https://[::1]", "null")),
    "host": (place_of, ("localhost:8000", "[::1]:80", "::1", "a.b_c-d")),
    "last-event-id": (_event, ("1700000000000-0", "5")),
    "cursor": (_cursor, (cursor_after(17), cursor_after(0))),
    "matrix": (_matrix_id, ("f" * 64, product_id(JOB, 2))),
    "next": (_next, ("/ui/jobs?state=failed", "//evil.example", "/\\evil")),
}


def _headers(data: bytes) -> None:
    """`name: value`."""
    name, _, value = data.partition(b": ")
    if (known := HEADERS.get(name.decode("latin-1"))) is not None:
        known[0](value.decode("latin-1"))


def _headers_seeds() -> Iterator[bytes]:
    return (f"{name}: {value}".encode() for name, (_, values) in HEADERS.items() for value in values)


# ---- queries, by the framework ----
def _queries() -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestValidationError, error_handlers.validation)

    @app.get("/jobs")
    async def jobs(query: Annotated[JobQuery, Query()]) -> str:
        return query.model_dump_json()

    @app.get("/many")
    async def many(query: Annotated[Many, Query()]) -> str:
        return query.model_dump_json() + query.address

    @app.get("/list")
    async def job_list(query: Annotated[ListQuery, Query()]) -> str:
        return query.model_dump_json() + query.address

    @app.get("/results")
    async def results(query: Annotated[ResultsQuery, Query()]) -> str:
        return query.model_dump_json()

    @app.get("/benchmarks")
    async def benchmarks(query: Annotated[NewBenchmarkQuery, Query()]) -> str:
        return query.model_dump_json()

    @app.get("/page")
    async def page(query: Annotated[ResultsPageQuery, Query()]) -> str:
        return query.model_dump_json()

    @app.get("/compare")
    async def compare(query: Annotated[ResultOption, Query()]) -> str:
        return query.model_dump_json() + query.link()

    return app


QUERIES = _queries()
QUERY_SEEDS: Mapping[str, Mapping[str, Any]] = {
    "/jobs": {"state": "failed", "kind": "matmul", "kernel": "naive", "q": "x", "limit": 5, "cursor": "x"},
    "/many": {"action": "cancel", "scope": "picked", "job": JOB, "until": "2026-01-02T03:04:05Z", "state": ""},
    "/list": {"did": "retry", "changed": 5, "left": 0, "q": "é"},
    "/results": {"format": "csv", "compare": JOB},
    "/benchmarks": {"dry_run": "true"},
    "/page": {"plot": "speed", "over": "a", "hide": "b", "configs": "all"},
    "/compare": {"before": JOB, "after": JOB, "page": 2},
}


def answer(app: Any, scope: Scope) -> tuple[int, bytes]:
    """Status and body."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    driven(app(scope, _nothing, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def _query(data: bytes) -> None:
    """Of the characters that a target may have: others are refused before."""
    path, _, query = data.partition(b"?")
    if path.decode("latin-1") in QUERY_SEEDS and all(0x21 <= byte <= 0x7E and byte != ord("#") for byte in query):
        status, _ = answer(QUERIES, scope_of(query=query, path=path.decode()))
        assert status in (200, 422), status


def _query_seeds() -> Iterator[bytes]:
    return (f"{path}?{urlencode(fields)}".encode() for path, fields in QUERY_SEEDS.items())


def _urlencoded(data: bytes) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": data, "more_body": False}

    headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"content-length", b"%d" % len(data))]
    form = driven(read_form(Request(scope_of(headers), receive), limit_bytes=4096))
    assert all(isinstance(text, str) for texts in form.values() for text in texts)


TARGETS = (
    Target("headers", _headers, _headers_seeds, tuple(f"{name}: ".encode() for name in HEADERS), max_bytes=1024),
    Target("query", _query, _query_seeds, tuple(f"{path}?".encode() for path in QUERY_SEEDS), max_bytes=512),
    Target("urlencoded", _urlencoded, lambda: (b"key=mm_x_y&next=%2Fui", b"job=a&job=b&x=%C3%A9"), max_bytes=2048),
)
