"""application/x-safetensors: tensors `a` and `b`, and further operands; the options are JSON text
in the metadata, under `options`."""

from __future__ import annotations

from pathlib import Path

from jobs.formats.parser import MatrixHeader
from jobs.formats.safetensors import SafetensorsParser
from jobs.requests.operands import INPUTS
from service.bodies.options import MatmulOptions, parse_options
from service.bodies.piece import Piece
from service.bodies.reader import NEEDED, OPTIONS, Check, MatmulInput, OpenUpload, Reader, json_options
from service.bodies.uploads import Upload

OPTIONAL = tuple(name for name in INPUTS if name not in NEEDED)


class SafetensorsReader(Reader[MatmulInput]):
    def __init__(
        self, open_upload: OpenUpload, check: Check, *, body_bytes: int | None, staging_dir: Path | None
    ) -> None:
        self._open = open_upload
        self._check = check
        self._parser = SafetensorsParser(
            self._take, names=NEEDED, optional=OPTIONAL, body_bytes=body_bytes, staging_dir=staging_dir
        )
        self._options: MatmulOptions | None = None
        self._operands: dict[str, Upload] = {}

    def feed(self, data: Piece) -> None:
        self._parser.feed(data)

    def finish(self) -> MatmulInput:
        self._parser.finish()
        return self._asked()

    def close(self) -> None:
        self._parser.close()

    def _take(self, header: MatrixHeader) -> Upload:
        upload = self._operands[header.name] = self._open(header)
        if self._operands.keys() >= {*NEEDED}:  # refuse what can be refused before the elements arrive
            self._check(self._asked())
        return upload

    def _asked(self) -> MatmulInput:
        if self._options is None:
            text = self._parser.metadata.get(OPTIONS, "{}")
            self._options = parse_options(json_options(text.encode(), "options in the metadata"))
        return MatmulInput(self._options, **self._operands)
