"""Reads the form of `/ui/multiply`: fields are kept, files are streamed into the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jobs.errors import InvalidMatrix, InvalidRequest, MalformedBody, MatmulError
from jobs.formats.npy import MAGIC, NpyParser
from jobs.formats.parser import MatrixHeader, MatrixParser
from jobs.formats.safetensors import SafetensorsParser
from jobs.requests.operands import OPERANDS
from service.bodies.multipart import MultipartParser, Part, boundary_of
from service.bodies.nested_lists import Numbers, read_numbers
from service.bodies.number_types import with_dtype
from service.bodies.options import MatmulOptions, parse_model
from service.bodies.piece import Piece
from service.bodies.reader import NEEDED, MatmulInput, OpenUpload, Operand, Reader, filled, reference
from service.bodies.safetensors import OPTIONAL
from service.bodies.uploads import Upload
from service.dashboard.multiply.form import FIELDS, form_of, operands_of, options_of

FILES = {f"file_{name}": name for name in OPERANDS}
MAX_FIELD_BYTES = 256 << 10
HEAD_BYTES = 9  # a safetensors file begins with eight bytes of length and a brace


class _Field(Part):
    """A text field, collected until it is complete."""

    def __init__(self, name: str, take: Callable[[str, str], None]) -> None:
        self._name = name
        self._take = take
        self._text = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self._text += data
        if len(self._text) > MAX_FIELD_BYTES:
            raise InvalidRequest(
                f"A field of a form may have {MAX_FIELD_BYTES} bytes; send larger matrices as files.", field=self._name
            )

    def end(self) -> None:
        try:
            self._take(self._name, self._text.decode())
        except UnicodeDecodeError:
            raise MalformedBody("The form is not UTF-8.", field=self._name) from None


class _File(Part):
    """A file, whose format is recognised by its first bytes; an empty one means that no file was chosen."""

    def __init__(self, name: str, parser_for: Callable[[str, bytes], MatrixParser]) -> None:
        self._name = name
        self._parser_for = parser_for
        self._head = b""
        self._parser: MatrixParser | None = None

    def write(self, data: bytes | memoryview) -> None:
        if self._parser is None:
            self._head += data
            if len(self._head) < HEAD_BYTES:
                return
            self._parser = self._parser_for(self._name, self._head[:HEAD_BYTES])
            data, self._head = self._head, b""
        self._explained(lambda parser: parser.feed(data))

    def end(self) -> None:
        if self._head:
            self._parser = self._parser_for(self._name, self._head)
        if self._parser is not None:
            self._explained(lambda parser: parser.finish())

    def _explained(self, step: Callable[[MatrixParser], None]) -> None:
        assert self._parser is not None
        try:
            step(self._parser)
        except MatmulError as error:
            error.field = error.field or self._name
            raise


class FormReader(Reader[MatmulInput]):
    """Reads the form. `fields` holds the values received so far."""

    def __init__(self, content_type: str, open_upload: OpenUpload, staging_dir: Path | None) -> None:
        self.fields: dict[str, str] = {}
        self._open = open_upload
        self._staging_dir = staging_dir
        self._parts = MultipartParser(boundary_of(content_type), self._open_part)
        self._parsers: list[MatrixParser] = []
        self._operands: dict[str, Operand] = {}

    def feed(self, data: Piece) -> None:
        self._parts.feed(data)

    def finish(self) -> MatmulInput:
        self._parts.finish()
        form = form_of(self.fields)
        options = parse_model(MatmulOptions, options_of(form))
        if form.source != "files":
            values = operands_of(form)
            lists = {
                name: read_numbers(value, name, options.dtype)
                for name, value in values.items()
                if isinstance(value, list)
            }
            options = with_dtype(options, lists, others=len(lists) < len(values))
            self._operands = {
                name: self._typed(lists.get(name, value), name, options) for name, value in values.items()
            }
        for name in NEEDED:
            if name not in self._operands:
                raise InvalidRequest(f"There is no {name.upper()}; choose a file for it.", field=f"file_{name}")
        return MatmulInput(options, **self._operands)

    def close(self) -> None:
        self._parts.close()
        for parser in self._parsers:
            parser.close()

    def _typed(self, value: object, name: str, options: MatmulOptions) -> Operand:
        if isinstance(value, Numbers):
            dtype = options.dtype_of(name)
            return filled(self._open, value.stored(dtype), dtype)
        return reference(value, name)

    def _open_part(self, name: str, media_type: str | None) -> Part:
        if name in FILES:
            return _File(name, self._parser_for)
        if name in FIELDS:
            return _Field(name, self.fields.__setitem__)
        raise InvalidRequest(f"The form has no field {name[:40]!a}.")

    def _parser_for(self, name: str, head: bytes) -> MatrixParser:
        parser: MatrixParser
        if head.startswith(MAGIC):
            parser = NpyParser(lambda header: self._take(FILES[name], header), staging_dir=self._staging_dir)
        elif head[HEAD_BYTES - 1 :] == b"{":
            parser = SafetensorsParser(
                lambda header: self._take(header.name, header),
                names=NEEDED,
                optional=OPTIONAL,
                staging_dir=self._staging_dir,
            )
        else:
            raise InvalidMatrix(
                f"The file for {FILES[name].upper()} is neither an .npy nor a safetensors file.", field=name
            )
        self._parsers.append(parser)
        return parser

    def _take(self, operand: str, header: MatrixHeader) -> Upload:
        if operand in self._operands:
            raise InvalidRequest(f"{operand.upper()} comes twice; a safetensors file holds all operands.")
        upload = self._operands[operand] = self._open(header)
        return upload
