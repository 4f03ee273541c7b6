"""Bodies of product requests. Operands are sent as safetensors, or as multipart if some operands are references or
safetensors lacks the type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matmul_client.core.elements import Array, dtype_name, elements
from matmul_client.core.wire import JSON, Buffer

_SAFETENSORS: Mapping[str, str] = {
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "int8": "I8",
    "int32": "I32",
    "float8_e4m3": "F8_E4M3",
    "complex64": "C64",
}
_IN_NPY = frozenset({"float16", "float32", "float64", "int8", "int32", "complex64", "complex128"})
_BOUNDARY = "matmul-client-5d0e6f1c9b3a"
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a matrix on the service; `kind` is `matrix` or `job`."""

    kind: str
    id: str


Operands = Mapping[str, Array | Reference]


def body_of(operands: Operands, options: Mapping[str, Any]) -> tuple[str, tuple[Buffer, ...]]:
    """Content-Type and body. Arrays are dense; their elements are not copied."""
    arrays = {name: value for name, value in operands.items() if not isinstance(value, Reference)}
    references = {name: {value.kind: value.id} for name, value in operands.items() if isinstance(value, Reference)}
    document = {**options, **references}
    if not arrays:
        return JSON, (json.dumps(document).encode(),)
    if not references and all(dtype_name(array) in _SAFETENSORS for array in arrays.values()):
        return "application/x-safetensors", _safetensors(arrays, options)
    return f"multipart/form-data; boundary={_BOUNDARY}", _multipart(arrays, document)


def fits_multipart(array: Array) -> bool:
    """Whether .npy, and so a part of a form, can carry it."""
    return dtype_name(array) in _IN_NPY


def _safetensors(arrays: Mapping[str, Array], options: Mapping[str, Any]) -> tuple[Buffer, ...]:
    header: dict[str, Any] = {"__metadata__": {"options": json.dumps(dict(options))}} if options else {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _SAFETENSORS[dtype_name(array)],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return (len(text).to_bytes(8, "little") + text, *map(elements, arrays.values()))


def _multipart(arrays: Mapping[str, Array], document: Mapping[str, Any]) -> tuple[Buffer, ...]:
    pieces: list[Buffer] = [_part("options", JSON), json.dumps(dict(document)).encode()]
    for name, array in arrays.items():
        pieces += [b"\r\n" + _part(name, "application/x-npy") + _npy_header(array), elements(array)]
    return (*pieces, f"\r\n--{_BOUNDARY}--\r\n".encode())


def _part(name: str, media_type: str) -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"'
    return f"--{_BOUNDARY}\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\n".encode()


def _npy_header(array: Array) -> bytes:
    """Version 1.0 of numpy's format."""
    text = repr({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape})
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
