"""The safetensors format, read strictly and written.

A file is the header's length (8 bytes, little-endian), the header (a JSON object: tensor name → dtype, shape,
data_offsets; and `__metadata__`, text to text), and the elements, little-endian and row-major.
(Format: the README of huggingface/safetensors.)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jobs.errors import InvalidMatrix, UnsupportedDType
from jobs.formats.elements import matrix_bytes
from jobs.formats.parser import SHOWN_CHARACTERS, MatrixHeader, MatrixParser, OpenSink, check_shape, excerpt
from kernels.model.numerics import DTypeName

MAX_HEADER_BYTES = 1 << 20
ALIGNMENT_BYTES = 8
METADATA = "__metadata__"
_LENGTH_BYTES = 8
_DTYPES: dict[str, DTypeName] = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I8": "int8",
    "I32": "int32",
    "F8_E4M3": "float8_e4m3",
    "C64": "complex64",
}
_WRITTEN = {name: code for code, name in _DTYPES.items()}


def in_safetensors(dtype: DTypeName) -> bool:
    """Whether the format has a name for the element type."""
    return dtype in _WRITTEN


@dataclass(frozen=True, slots=True)
class _Tensor:
    header: MatrixHeader
    begin: int  # bytes from the end of the header
    end: int


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidMatrix("A key comes twice in the safetensors header; each may come once.")
    return found


def _not_json(constant: str) -> NoReturn:
    raise InvalidMatrix(f"{constant} is no JSON, in the safetensors header.")


def _load(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_constant=_not_json)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        header = None
    if not isinstance(header, dict):
        raise InvalidMatrix("The safetensors header is not a JSON object.")
    return header


def _is_text(value: object) -> bool:
    """JSON strings may hold half of a surrogate pair, which no encoding takes."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _metadata(value: object) -> dict[str, str]:
    if isinstance(value, dict) and all(_is_text(text) for pair in value.items() for text in pair):
        return value
    raise InvalidMatrix(f"{METADATA} in the safetensors header must map text to text.")


def _integers(value: object) -> list[int] | None:
    """A JSON array of integers. True is not accepted, although bool is a subclass of int in Python."""
    return value if isinstance(value, list) and all(type(item) is int for item in value) else None


def _tensor(name: str, value: object) -> _Tensor:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise InvalidMatrix(f"Tensor {excerpt(name)} must have dtype, shape and data_offsets, and nothing else.")
    shape, offsets = _integers(value["shape"]), _integers(value["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        raise InvalidMatrix(f"Tensor {excerpt(name)}: shape and data_offsets must be arrays of whole numbers.")
    dtype = _DTYPES.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None:
        given = excerpt(str(value["dtype"]))
        raise UnsupportedDType(f"Tensor {excerpt(name)}: dtype {given} is not taken here; send {', '.join(_DTYPES)}.")
    return _Tensor(MatrixHeader(dtype, check_shape(dtype, shape), name), *offsets)


def _tiled(tensors: list[_Tensor]) -> list[_Tensor]:
    """Sorts the tensors by offset, and checks that they are contiguous and that each is as long as its shape
    requires.
    """
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    end = 0
    for tensor in tensors:
        size = tensor.header.bytes
        if tensor.begin != end or tensor.end - tensor.begin != size:
            raise InvalidMatrix(
                f"Tensor {excerpt(tensor.header.name)}: data_offsets must be [{end}, {end + size}], as its shape and "
                "dtype say; tensors lie end to end, without gap or overlap."
            )
        end = tensor.end
    return tensors


class SafetensorsParser(MatrixParser):
    """The tensors called `names`, all of them, and no others but those called `optional`; by default one, under any
    name.

    Sinks are opened, and filled, in the order in which the elements lie in the file.
    """

    def __init__(
        self,
        open_sink: OpenSink,
        *,
        names: Collection[str] | None = None,
        optional: Collection[str] = (),
        body_bytes: int | None = None,
        staging_dir: Path | None = None,
    ) -> None:
        super().__init__(open_sink, body_bytes=body_bytes, staging_dir=staging_dir)
        self._names, self._optional = names, optional
        self.metadata: Mapping[str, str] = {}  # what the header's `__metadata__` held

    def _header_bytes(self, head: bytearray) -> int:
        if len(head) < _LENGTH_BYTES:
            return _LENGTH_BYTES
        length = int.from_bytes(head[:_LENGTH_BYTES], "little")
        if length > MAX_HEADER_BYTES:
            raise InvalidMatrix(
                f"The safetensors header claims {length} bytes; {MAX_HEADER_BYTES} are the most read here."
            )
        return _LENGTH_BYTES + length

    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        header = _load(head[_LENGTH_BYTES:])
        self.metadata = _metadata(header.pop(METADATA, {}))
        self._check_names(header)
        return [tensor.header for tensor in _tiled([self._tensor(name, value) for name, value in header.items()])]

    def _tensor(self, name: str, value: object) -> _Tensor:
        try:
            return _tensor(name, value)
        except (InvalidMatrix, UnsupportedDType) as error:
            error.field = name if self._names is not None else None
            raise

    def _check_names(self, header: dict[str, Any]) -> None:
        if self._names is None and len(header) != 1:
            raise InvalidMatrix(f"The safetensors body must hold one tensor; it holds {len(header)}.")
        if self._names is not None and header.keys() - set(self._optional) != set(self._names):
            unknown = [name for name in header if name not in self._names and name not in self._optional]
            first = sorted(header, key=lambda name: name not in unknown)[:4]  # what is wrong is told before the rest
            held = ", ".join(map(excerpt, first)) or "none"
            may = f", and may hold {', '.join(self._optional)}" if self._optional else ""
            raise InvalidMatrix(
                f"The safetensors body must hold the tensors {', '.join(self._names)}{may}; it has {held}.",
                field=next((name for name in self._names if name not in header), None) or _field(unknown),
            )


def _field(unknown: list[str]) -> str:
    """The first of them, as an error may name it."""
    name = next(iter(unknown), "")
    return name if name.isprintable() and len(name) <= SHOWN_CHARACTERS else excerpt(name)


def safetensors_header(tensors: Mapping[str, tuple[DTypeName, tuple[int, ...]]]) -> bytes:
    """The file header for `tensors` (name → dtype, shape), whose elements follow in that order without gaps. Its length
    is a multiple of 8 bytes. Raises UnsupportedDType if the format has no name for a type.
    """
    if unknown := [dtype for dtype, _ in tensors.values() if not in_safetensors(dtype)]:
        raise UnsupportedDType(
            f"safetensors has no {unknown[0]}; ask for application/x-npy or application/octet-stream."
        )
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + matrix_bytes(dtype, shape)
        header[name] = {"dtype": _WRITTEN[dtype], "shape": shape, "data_offsets": (begin, end)}
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text
