"""What the body readers of POST /v1/matmul have in common. A reader is fed piece by piece, in worker threads."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from jobs.errors import InvalidRequest, MalformedBody
from jobs.formats.elements import Array
from jobs.formats.parser import MatrixHeader
from jobs.requests.operands import INPUTS, OPERANDS, RandomSpec
from kernels.model.numerics import DTypeName
from service.bodies.nested_lists import loads
from service.bodies.options import JobRef, MatmulOptions, MatrixRef, RandomOperand, parse_model
from service.bodies.piece import Piece
from service.bodies.uploads import Upload
from service.problems import UnsupportedMediaType, shown

T = TypeVar("T")
NEEDED = ("a", "b")
MAX_NAMES = 50_000  # a benchmark's request may list some thousand shapes, of up to five names each
OPTIONS = "options"  # the name of the options part beside binary operands

Operand = Upload | MatrixRef | JobRef | RandomSpec
OpenUpload = Callable[[MatrixHeader], Upload]


@dataclass(frozen=True, slots=True)
class MatmulInput:
    """A parsed product request."""

    options: MatmulOptions
    a: Operand
    b: Operand
    c: Operand | None = None
    bias: Operand | None = None
    scale_a: Operand | None = None
    scale_b: Operand | None = None

    @property
    def operands(self) -> dict[str, Operand]:
        """By name."""
        return {name: operand for name in INPUTS if (operand := getattr(self, name)) is not None}

    @property
    def uploads(self) -> dict[str, Upload]:
        """Operands sent with the request, each under the first of its names."""
        found: dict[str, Upload] = {}
        for name, operand in self.operands.items():
            if isinstance(operand, Upload) and operand not in found.values():
                found[name] = operand
        return found

    @property
    def is_plain(self) -> bool:
        """Whether it has no operands but A and B."""
        return self.c is None and self.bias is None and self.scale_a is None and self.scale_b is None

    def with_one_upload(self, more_than_bytes: int) -> MatmulInput:
        """If a matrix larger than `more_than_bytes` was sent twice, to be multiplied by its transpose, drops one of the
        two: it is then stored and copied once, and its product is known to be symmetric.
        """
        a, b, options = self.a, self.b, self.options
        if not isinstance(a, Upload) or not isinstance(b, Upload) or options.transpose_a == options.transpose_b:
            return self
        return replace(self, b=a) if a.bytes > more_than_bytes and a.is_same(b) else self


Check = Callable[[MatmulInput], None]  # raises if the product is impossible whatever the elements


class Reader(ABC, Generic[T]):
    """Feed it the body, then call `finish`. Raises InvalidRequest and its subclasses."""

    keeps: ClassVar[bool] = False  # whether it keeps the body in memory until `finish`

    @abstractmethod
    def feed(self, data: Piece) -> None: ...

    @abstractmethod
    def finish(self) -> T:
        """The parsed contents of the body."""

    def close(self) -> None:
        """Drops temporary files."""
        return


class WholeReader(Reader[T]):
    """One that looks at the body once all of it has come."""

    keeps = True

    def __init__(self, open_upload: OpenUpload) -> None:
        self._open = open_upload
        self._pieces: list[bytes] = []

    def feed(self, data: Piece) -> None:
        self._pieces.append(bytes(data))

    @property
    def _body(self) -> bytes:
        return b"".join(self._pieces)


def accepted_type(content_type: str | None, *accepted: str) -> str:
    """The media type without its parameters. Raises UnsupportedMediaType if it is not one of `accepted`."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type in accepted:
        return media_type
    listed = ", ".join(accepted)
    raise UnsupportedMediaType(
        f"The body's media type is {media_type or 'not given'}; send one of {listed}, and name it in Content-Type.",
        field="Content-Type",
        headers={"accept-post": listed},
    )


def json_object(body: bytes, called: str = "The body", max_names: int = MAX_NAMES) -> dict[str, Any]:
    """Parses the body, or a part of it, as a JSON object; `called` is its name in error messages. Raises MalformedBody,
    InvalidRequest, the latter before it is parsed if it may have more than `max_names` objects, or names in them: these
    take a hundred times as long as numbers.
    """
    if not body:
        raise MalformedBody(f"{called} is empty; send a JSON object.")
    if body.count(b"{") > max_names or body.count(b":") > max_names:  # or in strings, of which none has so many
        raise InvalidRequest(f"{called} has more objects, or names in them, than are read here: {max_names}.")
    document = loads(body, called)
    if not isinstance(document, dict):
        raise InvalidRequest(f"{called} must be a JSON object.")
    _check_names(body, document)
    return document


def _check_names(body: bytes, document: dict[str, Any]) -> None:
    """Refuses a name that comes twice in one object: parsers differ in which value counts, so what is in front of this
    server may have read another request. Most bodies are not parsed again for it: a colon is behind a name or in a
    string, so if there are as many colons as names in the `document`, no name was lost. Raises InvalidRequest.
    """
    if body.count(b":") == _name_count(document):
        return
    with suppress(ValueError, RecursionError):  # nested so deeply that it is refused elsewhere
        json.loads(body, object_pairs_hook=_check_pairs, parse_int=len)  # of any length


def _name_count(document: dict[str, Any]) -> int:
    """The names in it, but for objects in a list that begins with something else."""
    count, left = 0, list[Any]([document])
    while left:
        value = left.pop()
        if isinstance(value, dict):
            count += len(value)
            left.extend(value.values())
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            left.extend(value)
    return count


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequest(f"The field {shown(name)} comes twice; send it once.", field=shown(name))
        seen.add(name)


def json_options(text: bytes, called: str) -> dict[str, Any]:
    """Parses the options beside binary operands. Raises MalformedBody and InvalidRequest, both with the field."""
    try:
        return json_object(text, called)
    except (MalformedBody, InvalidRequest) as error:
        error.field = OPTIONS
        raise


def operands_of(document: dict[str, Any]) -> dict[str, Any]:
    """Removes the operands from the document and returns them by name. All except A and B may be null."""
    values = {name: document.pop(name) for name in INPUTS if name in document}
    return {name: value for name, value in values.items() if value is not None or name in NEEDED}


def reference(value: Any, name: str, otherwise: str = "a list of rows of numbers") -> MatrixRef | JobRef | RandomSpec:
    """Parses an operand given without its elements: a stored matrix, a job's product, or a seed. `otherwise` names the
    other form allowed there, for error messages.
    """
    if isinstance(value, dict) and "matrix" in value:
        return parse_model(MatrixRef, value, name)
    if isinstance(value, dict) and "job" in value:
        return parse_model(JobRef, value, name)
    if isinstance(value, dict) and "random" in value:
        return parse_model(RandomOperand, value, name).random
    job = ', {"job": "<id>"}' if name in OPERANDS else ""
    raise InvalidRequest(
        f'{name} must be {otherwise}, {{"matrix": "<id>"}}{job} or {{"random": {{…}}}}.',
        field=name,
    )


def filled(open_upload: OpenUpload, array: Array, dtype: DTypeName) -> Upload:
    """An upload filled with the elements of an array."""
    upload = open_upload(MatrixHeader(dtype, array.shape))
    upload.write(array.tobytes())
    return upload
