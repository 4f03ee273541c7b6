"""Bodies of inference requests: JSON, followed by the raw elements of tensors that are not in it.

`Inference-Header-Content-Length` is the length of the JSON. Elements are little-endian and row-major, and follow each
other without gaps in the order of the inputs. (Format: the binary tensor data extension of Triton's protocol.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Semaphore
from typing import Any, Protocol

from jobs.errors import MalformedBody
from jobs.formats.parser import MatrixHeader, MatrixParser
from service.api_process.body_memory import FREE_BYTES
from service.bodies.nested_lists import parse_shaped
from service.bodies.piece import Piece
from service.bodies.reader import NEEDED, Check, MatmulInput, OpenUpload, Operand, Reader, filled
from service.bodies.uploads import Upload
from service.inference.body import InferBody, InRegion
from service.inference.head import LENGTH_HEADER, InferHead, named, read_head
from service.inference.models import Model
from service.inference.regions import Window

MAX_HEADER_BYTES = 1 << 20  # of JSON with elements behind it
PARSING = Semaphore(4)  # limits concurrent parsing: parsed JSON takes many times its length


class OpenWindow(Protocol):
    """Opens the shared memory that a tensor's parameters name. Raises InvalidRequest, Forbidden, NotFound."""

    def __call__(self, where: InRegion, *, writes: bool) -> AbstractContextManager[Window]: ...


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A parsed request: the product that it asks for, and the JSON, which says how to send it."""

    product: MatmulInput
    body: InferBody


class InferParser(MatrixParser):
    """The JSON, of known length, then the elements of the tensors that have a `binary_data_size`."""

    def __init__(
        self,
        header_bytes: int,
        model: Model,
        open_upload: OpenUpload,
        check: Check,
        *,
        body_bytes: int | None,
        is_alone: bool,
        open_window: OpenWindow,
    ) -> None:
        """`is_alone`: the caller did not announce raw elements after the JSON. `open_window` opens shared memory."""
        super().__init__(self._take, body_bytes=body_bytes)
        self._is_alone = is_alone
        self._open_window = open_window
        self._length = header_bytes
        self._model = model
        self._open = open_upload
        self._check = check
        self._operands: dict[str, Operand] = {}
        self._said: InferHead

    @property
    def request(self) -> InferRequest:
        """The request, once its JSON is parsed and the required operands are known."""
        return InferRequest(MatmulInput(self._said.options, **self._operands), self._said.body)

    def _header_bytes(self, head: bytearray) -> int:
        return self._length

    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        with PARSING if len(head) > FREE_BYTES else nullcontext():
            said = self._said = read_head(head, self._model, is_alone=self._is_alone)
            for header, elements in said.in_json:
                self._operands[header.name.lower()] = self._filled(header, elements)
        for header, where in said.in_regions:
            self._copy(self._take(header), where)
        self._check_early()
        return said.behind

    def _filled(self, header: MatrixHeader, elements: list[Any]) -> Operand:
        array = parse_shaped(elements, header.name, header.shape, header.dtype)
        return filled(self._open, array, header.dtype)

    def _copy(self, upload: Upload, where: InRegion) -> None:
        with self._open_window(where, writes=False) as window:
            for chunk in window.chunks():
                upload.write(chunk)

    def _take(self, header: MatrixHeader) -> Upload:
        upload: Upload = named(header.name, lambda: self._open(header))
        self._operands[header.name.lower()] = upload
        self._check_early()
        return upload

    def _check_early(self) -> None:
        """Refuses what can be refused before all elements have arrived."""
        if self._operands.keys() >= {*NEEDED}:
            self._check(self.request.product)


class BinaryInferReader(Reader[InferRequest]):
    """JSON with elements behind it."""

    def __init__(self, parser: InferParser) -> None:
        self._parser = parser

    def feed(self, data: Piece) -> None:
        self._parser.feed(data)

    def finish(self) -> InferRequest:
        self._parser.finish()
        return self._parser.request

    def close(self) -> None:
        self._parser.close()


class JsonInferReader(Reader[InferRequest]):
    """JSON alone, whose length is known only at its end."""

    keeps = True

    def __init__(self, make_parser: Callable[[int], InferParser]) -> None:
        self._make_parser = make_parser
        self._pieces: list[bytes] = []

    def feed(self, data: Piece) -> None:
        self._pieces.append(bytes(data))

    def finish(self) -> InferRequest:
        text = b"".join(self._pieces)
        with self._make_parser(len(text)) as parser:
            parser.feed(text)
            parser.finish()
            return parser.request


def header_length(text: str | None) -> int | None:
    """The value of LENGTH_HEADER; None without one. Raises MalformedBody."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise MalformedBody(f"{LENGTH_HEADER} must be a whole number of bytes.", field=LENGTH_HEADER)
    if len(text) > len(str(MAX_HEADER_BYTES)) or int(text) > MAX_HEADER_BYTES:
        raise MalformedBody(
            f"The JSON before binary data may have {MAX_HEADER_BYTES} bytes; send large tensors as binary data.",
            field=LENGTH_HEADER,
        )
    return int(text)
