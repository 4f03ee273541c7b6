"""multipart/form-data: parts `a` and `b`, and further operands, as .npy, and a JSON part `options`, in any order. An
operand may be given in `options` instead, as `{"matrix": id}`, `{"job": id}` or `{"random": {…}}`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jobs.errors import InvalidRequest, MatmulError
from jobs.formats.npy import NpyParser
from jobs.formats.parser import MatrixHeader
from jobs.requests.operands import INPUTS
from service.bodies.multipart import MultipartParser, Part, boundary_of
from service.bodies.options import MAX_OPTIONS_BYTES, NO_OPTIONS, MatmulOptions, parse_options
from service.bodies.piece import Piece
from service.bodies.reader import (
    NEEDED,
    OPTIONS,
    Check,
    MatmulInput,
    OpenUpload,
    Operand,
    Reader,
    json_options,
    operands_of,
    reference,
)
from service.bodies.uploads import Upload
from service.http.negotiation import NPY, OCTETS
from service.problems import UnsupportedMediaType

MULTIPART = "multipart/form-data"


class _OptionsPart(Part):
    """Collects its contents until they are complete."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._text = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self._text += data
        if len(self._text) > MAX_OPTIONS_BYTES:
            raise InvalidRequest(f"The part options may have {MAX_OPTIONS_BYTES} bytes.", field=OPTIONS)

    def end(self) -> None:
        self._take(bytes(self._text))


class _FilePart(Part):
    """Passes its contents to a parser; errors name the part."""

    def __init__(self, name: str, parser: NpyParser) -> None:
        self._name = name
        self._parser = parser

    def write(self, data: bytes | memoryview) -> None:
        self._told(lambda: self._parser.feed(data))

    def end(self) -> None:
        self._told(self._parser.finish)

    def _told(self, step: Callable[[], None]) -> None:
        try:
            step()
        except MatmulError as error:
            error.field = error.field or self._name
            raise


class MultipartReader(Reader[MatmulInput]):
    def __init__(self, content_type: str, open_upload: OpenUpload, check: Check, staging_dir: Path | None) -> None:
        self._open = open_upload
        self._check = check
        self._staging_dir = staging_dir
        self._parts = MultipartParser(boundary_of(content_type), self._open_part)
        self._names: set[str] = set()
        self._files: list[NpyParser] = []
        self._options: MatmulOptions | None = None
        self._operands: dict[str, Operand] = {}

    def feed(self, data: Piece) -> None:
        self._parts.feed(data)

    def finish(self) -> MatmulInput:
        self._parts.finish()
        for name in NEEDED:
            if name not in self._operands:
                raise InvalidRequest(f"{name} is missing; send it as a part of that name, in npy format.", field=name)
        return MatmulInput(self._options or NO_OPTIONS, **self._operands)

    def close(self) -> None:
        self._parts.close()
        for file in self._files:
            file.close()

    def _open_part(self, name: str, media_type: str | None) -> Part:
        if name not in (*INPUTS, OPTIONS):
            if name in MatmulOptions.model_fields:
                raise InvalidRequest(
                    f'{name} is an option; send all options as JSON in one part, such as options={{"{name}": …}}.',
                    field=name,
                )
            allowed = f"the parts are {', '.join(INPUTS)} and {OPTIONS}"
            raise InvalidRequest(f"There is no part {name[:40]!a}; {allowed}.", field=name[:40])
        if name in self._names:
            raise InvalidRequest(f"The part {name} comes twice.", field=name)
        self._names.add(name)
        if name == OPTIONS:
            return _OptionsPart(self._take_options)
        if media_type not in (None, NPY, OCTETS):
            raise UnsupportedMediaType(f"The part {name} is {media_type}; operands come as {NPY}.", field=name)
        parser = NpyParser(lambda header: self._take_file(name, header), staging_dir=self._staging_dir)
        self._files.append(parser)
        return _FilePart(name, parser)

    def _take_file(self, name: str, header: MatrixHeader) -> Upload:
        upload = self._open(header)
        self._add(name, upload)
        return upload

    def _take_options(self, text: bytes) -> None:
        document = json_options(text, "The part options")
        for name, value in operands_of(document).items():
            self._add(name, reference(value, name, f"a part {name} as .npy or, in options"))
        self._options = parse_options(document)
        self._check_early()

    def _add(self, name: str, operand: Operand) -> None:
        if name in self._operands:
            raise InvalidRequest(f"{name} comes twice: as a part and in options.", field=name)
        self._operands[name] = operand
        self._check_early()

    def _check_early(self) -> None:
        """Checks the request as early as possible, before all elements have arrived."""
        if self._options is not None and self._operands.keys() >= {*NEEDED}:
            self._check(MatmulInput(self._options, **self._operands))
