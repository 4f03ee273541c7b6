"""application/json: `{"a": M, "b": M, …options}`, and so the other operands; M is nested lists,
`{"matrix": id}`, `{"job": id}` or `{"random": {…}}`."""

from __future__ import annotations

from typing import Any

from jobs.errors import InvalidRequest
from service.bodies.nested_lists import Numbers, read_lists
from service.bodies.number_types import with_dtype
from service.bodies.options import MatmulOptions, parse_options
from service.bodies.reader import (
    NEEDED,
    MatmulInput,
    Operand,
    WholeReader,
    filled,
    json_object,
    operands_of,
    reference,
)


class JsonReader(WholeReader[MatmulInput]):
    def finish(self) -> MatmulInput:
        body = self._body
        document = json_object(body)
        values = operands_of(document)
        options = parse_options(document)
        for name in NEEDED:
            if name not in values:
                raise InvalidRequest(f"{name} is missing; a product needs the operands a and b.", field=name)
        lists = read_lists(values, body, options.dtype)
        options = with_dtype(options, lists, others=len(lists) < len(values))
        return MatmulInput(
            options, **{name: self._operand(lists.get(name, value), name, options) for name, value in values.items()}
        )

    def _operand(self, value: Any, name: str, options: MatmulOptions) -> Operand:
        if isinstance(value, Numbers):
            dtype = options.dtype_of(name)
            return filled(self._open, value.stored(dtype), dtype)
        return reference(value, name)
