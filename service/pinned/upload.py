"""Receives a file of results, as the body of a request or in a form. It counts among the bodies in this process's
memory, and large ones are read one after the other, like other JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from starlette.requests import Request

from jobs.errors import InvalidRequest
from service.bodies.body import Body
from service.bodies.multipart import MultipartParser, Part, boundary_of
from service.bodies.piece import Piece
from service.bodies.reader import Reader, accepted_type
from service.bodies.receive import receive
from service.bodies.uploads import UploadOwner, UploadSet
from service.context import context_of, owner_of
from service.pinned.files import MAX_FILE_BYTES

MULTIPART = "multipart/form-data"
MAX_OVERHEAD_BYTES = 64 << 10  # boundaries, headers, other fields

R = TypeVar("R")


class FileReader(Reader[bytes]):
    """The whole body is the file."""

    keeps = True
    max_bytes = MAX_FILE_BYTES

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: Piece) -> None:
        self._pieces.append(bytes(data))

    def finish(self) -> bytes:
        return b"".join(self._pieces)


class FormReader(FileReader):
    """The file is the part `file` of a form."""

    max_bytes = MAX_FILE_BYTES + MAX_OVERHEAD_BYTES

    def __init__(self, content_type: str) -> None:
        """Raises UnsupportedMediaType, MalformedBody."""
        super().__init__()
        accepted_type(content_type, MULTIPART)
        self._boundary = boundary_of(content_type)

    def finish(self) -> bytes:
        """Raises MalformedBody, InvalidRequest."""
        parts: dict[str, _Collected] = {}

        def open_part(name: str, _: str | None) -> Part:
            return parts.setdefault(name, _Collected())

        parser = MultipartParser(self._boundary, open_part)
        parser.feed(super().finish())
        parser.finish()
        if not (found := parts.get("file")) or not found.data:
            raise InvalidRequest("Choose a file that a service exported.", field="file")
        return bytes(found.data)


class _Collected(Part):
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self.data += data

    def end(self) -> None: ...


async def receive_file(request: Request, reader: FileReader, conclude: Callable[[bytes], R]) -> R:
    """The result of `conclude`, which is called with the file in a worker thread. Raises PayloadTooLarge,
    TooManyBodies, and what the reader and `conclude` raise.
    """
    context = context_of(request)
    body = Body(request.scope, request.receive, limit_bytes=reader.max_bytes)
    no_matrices = UploadSet(context.store, partial(UploadOwner, owner_of(request), 0.0), max_bytes=0)
    return await receive(context, body, reader, no_matrices, conclude)
