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

from jobs.errors import InvalidMatrix, InvalidRequest, MalformedBody, MatmulError
from jobs.formats.parser import MatrixHeader, MatrixParser, check_shape
from jobs.requests.operands import OPERANDS
from service.api_process.body_memory import FREE_BYTES
from service.bodies.nested_lists import parse_shaped
from service.bodies.options import MatmulOptions, parse_model
from service.bodies.piece import Piece
from service.bodies.reader import NEEDED, Check, MatmulInput, OpenUpload, Operand, Reader, filled, json_object
from service.bodies.uploads import Upload
from service.inference.body import InferBody, Input, InRegion
from service.inference.datatypes import BITS, dtype_of
from service.inference.models import Model
from service.inference.regions import Window

LENGTH_HEADER = "Inference-Header-Content-Length"
MAX_HEADER_BYTES = 1 << 20  # of JSON with elements behind it
PARSING = Semaphore(4)  # limits concurrent parsing: parsed JSON takes many times its length
_NOT_OFFERED = {
    "sequence_id": "Sequences are not offered: each product stands alone, so leave sequence_id out.",
    "sequence_start": "Sequences are not offered: each product stands alone, so leave sequence_start out.",
    "sequence_end": "Sequences are not offered: each product stands alone, so leave sequence_end out.",
    "classification": "A product has no classes; leave classification out.",
}


class OpenWindow(Protocol):
    """Opens the shared memory that a tensor's parameters name. Raises InvalidRequest, Forbidden, NotFound."""

    def __call__(self, where: InRegion, *, writes: bool) -> AbstractContextManager[Window]: ...


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A parsed request: the product, and how to send it."""

    asked: MatmulInput
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
        self._body: InferBody
        self._options: MatmulOptions

    @property
    def request(self) -> InferRequest:
        """The request, once its JSON is parsed and the required operands are known."""
        return InferRequest(MatmulInput(self._options, **self._operands), self._body)

    def _header_bytes(self, head: bytearray) -> int:
        return self._length

    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        with PARSING if len(head) > FREE_BYTES else nullcontext():
            headers = self._parse(head)
        tensors = list(zip(self._body.inputs, headers, strict=True))
        for tensor, header in tensors:
            if tensor.parameters.is_in_region:
                self._copy(self._take(header), tensor.parameters)
        self._check_early()
        return [header for tensor, header in tensors if tensor.parameters.binary_data_size is not None]

    def _parse(self, head: bytes) -> list[MatrixHeader]:
        """Parses all inputs. Elements that are in the JSON are read."""
        document = json_object(head)
        _check_offered(document)
        data = _taken_data(document)
        self._body = parse_model(InferBody, document)
        self._options = self._model.options(self._body.parameters.options)
        if len(self._body.outputs) > 1:
            raise InvalidRequest("There is one output, C; name it once.", field="outputs")
        _check_names([tensor.name for tensor in self._body.inputs])
        headers = [self._header(tensor) for tensor in self._body.inputs]
        for tensor, header, elements in zip(self._body.inputs, headers, data, strict=True):
            self._check_source(tensor, header, elements)
        for header, elements in zip(headers, data, strict=True):
            if elements is not None:
                self._operands[header.name.lower()] = self._filled(header, elements)
        return headers

    def _header(self, tensor: Input) -> MatrixHeader:
        dtype = dtype_of(tensor.datatype, self._options.dtype, tensor.name)
        return MatrixHeader(dtype, _named(tensor.name, lambda: check_shape(dtype, tensor.shape)), tensor.name)

    def _check_source(self, tensor: Input, header: MatrixHeader, elements: Any) -> None:
        """Checks that elements are given in exactly one place, and are as many as the shape requires."""
        name, size = tensor.name, tensor.parameters.binary_data_size
        if (size is not None) + (elements is not None) + tensor.parameters.is_in_region != 1:
            raise InvalidRequest(
                f"{name} needs one of data and the parameters binary_data_size and shared_memory_region.", field=name
            )
        if tensor.parameters.is_in_region:
            size = tensor.parameters.shared_memory_byte_size
        elif size is not None and self._is_alone:
            raise MalformedBody(
                f"{name} has a binary_data_size, but {LENGTH_HEADER} does not say where the JSON ends.",
                field=LENGTH_HEADER,
            )
        if size is not None and size != header.bytes:
            raise InvalidMatrix(
                f"{name} has {size} bytes, but its shape and datatype make {header.bytes}.",
                field=name,
            )
        if elements is not None and not isinstance(elements, list):
            raise InvalidMatrix(f"{name}: data must be a list of numbers.", field=name)
        if elements is not None and tensor.datatype == BITS:
            raise InvalidMatrix(f"{name} holds 8-bit floats as bits; send them as binary data.", field=name)

    def _filled(self, header: MatrixHeader, elements: list[Any]) -> Operand:
        array = parse_shaped(elements, header.name, header.shape, header.dtype)
        return filled(self._open, array, header.dtype)

    def _copy(self, upload: Upload, where: InRegion) -> None:
        with self._open_window(where, writes=False) as window:
            for chunk in window.chunks():
                upload.write(chunk)

    def _take(self, header: MatrixHeader) -> Upload:
        upload: Upload = _named(header.name, lambda: self._open(header))
        self._operands[header.name.lower()] = upload
        self._check_early()
        return upload

    def _check_early(self) -> None:
        """Refuses what can be refused before all elements have arrived."""
        if self._operands.keys() >= {*NEEDED}:
            self._check(self.request.asked)


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


def _named(name: str, step: Callable[[], Any]) -> Any:
    """The result of `step`; its errors name the tensor."""
    try:
        return step()
    except MatmulError as error:
        if error.field is None:
            error.field, error.detail = name, f"{name}: {error.detail}"
        raise


def _check_offered(document: dict[str, Any]) -> None:
    """Refuses features of the protocol that this server lacks, with a specific message."""
    outputs = document.get("outputs")
    places = [document, *(outputs if isinstance(outputs, list) else ())]
    for place in places:
        parameters = place.get("parameters") if isinstance(place, dict) else None
        for name in parameters if isinstance(parameters, dict) else ():
            if name in _NOT_OFFERED:
                raise InvalidRequest(_NOT_OFFERED[name], field=f"parameters.{name}")


def _taken_data(document: dict[str, Any]) -> list[Any]:
    """Removes the elements from each input and returns them; None if it has none."""
    inputs = document.get("inputs")
    return (
        [tensor.pop("data", None) if isinstance(tensor, dict) else None for tensor in inputs or ()]
        if isinstance(inputs, list)
        else []
    )


def _check_names(names: Sequence[str]) -> None:
    for name in map(str.upper, OPERANDS):
        if names.count(name) > 1:
            raise InvalidRequest(f"The input {name} comes twice.", field="inputs")
    for name in map(str.upper, NEEDED):
        if name not in names:
            raise InvalidRequest(f"The input {name} is missing; a product needs A and B.", field="inputs")
