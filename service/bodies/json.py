"""application/json: `{"a": M, "b": M, …options}`; M is nested lists, `{"matrix": id}`, `{"job": id}` or
`{"random": {…}}`."""

from __future__ import annotations

from typing import Any

from jobs.errors import InvalidRequest
from service.bodies.nested_lists import parse_nested
from service.bodies.options import MatmulOptions, parse_model
from service.bodies.reader import OPERANDS, MatmulInput, OpenUpload, Operand, Reader, filled, json_object, reference


class JsonReader(Reader[MatmulInput]):
    keeps = True

    def __init__(self, open_upload: OpenUpload) -> None:
        self._open = open_upload
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)

    def finish(self) -> MatmulInput:
        document = json_object(b"".join(self._pieces))
        values = {name: document.pop(name) for name in OPERANDS if name in document}
        options = parse_model(MatmulOptions, document)
        a, b = (self._operand(values, name, options) for name in OPERANDS)
        return MatmulInput(options, a, b)

    def _operand(self, values: dict[str, Any], name: str, options: MatmulOptions) -> Operand:
        if name not in values:
            raise InvalidRequest(f"{name} is missing; a product needs the operands a and b.", field=name)
        value = values[name]
        if isinstance(value, list):
            dtype = options.dtype or "float32"
            return filled(self._open, parse_nested(value, name, dtype), dtype)
        return reference(value, name)
