"""A results file uploaded by a form."""

from __future__ import annotations

from starlette.requests import Request

from jobs.errors import InvalidRequest
from service.bodies.body import Body
from service.bodies.multipart import MultipartParser, Part, boundary_of
from service.bodies.reader import media_type_of, unsupported
from service.pinned.files import MAX_FILE_BYTES

MULTIPART = "multipart/form-data"
MAX_OVERHEAD_BYTES = 64 << 10  # boundaries, headers, other fields


class _Collected(Part):
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self.data += data

    def end(self) -> None: ...


async def read_uploaded(request: Request) -> bytes:
    """The contents of the part `file`. Raises UnsupportedMediaType, PayloadTooLarge, MalformedBody, InvalidRequest."""
    content_type = request.headers.get("content-type", "")
    if media_type_of(content_type) != MULTIPART:
        raise unsupported(media_type_of(content_type), (MULTIPART,))
    body = await Body(request.scope, request.receive, limit_bytes=MAX_FILE_BYTES + MAX_OVERHEAD_BYTES).read()
    parts: dict[str, _Collected] = {}

    def open_part(name: str, _: str | None) -> Part:
        return parts.setdefault(name, _Collected())

    parser = MultipartParser(boundary_of(content_type), open_part)
    parser.feed(body)
    parser.finish()
    if not (found := parts.get("file")) or not found.data:
        raise InvalidRequest("Choose a file that a service exported.", field="file")
    return bytes(found.data)
