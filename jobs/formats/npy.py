"""numpy's .npy format, read strictly and written.

A file is `\\x93NUMPY`, two version bytes, the header's length (2 bytes in version 1, else 4), and the header: a Python
dict display of `descr`, `fortran_order` and `shape`, padded with spaces. The header is parsed by a dedicated grammar,
not by a Python parser. (Format: numpy's `numpy.lib.format`.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from jobs.errors import InvalidMatrix, UnsupportedDType
from jobs.formats.parser import MatrixHeader, MatrixParser, check_shape, excerpt
from kernels.model.numerics import DTypeName

MAGIC = b"\x93NUMPY"
NOT_NPY = "The body is not an .npy file of version 1, 2 or 3; write one with numpy.save."
MAX_HEADER_BYTES = 64 << 10
KEPT_BYTES = 256  # longest header that is kept
ALIGNMENT_BYTES = 64  # of the elements, so that they can be mapped
_VERSIONS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # bytes of the header's length
_DESCRIPTIONS: dict[str, DTypeName] = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i4": "int32",
    "c8": "complex64",
    "c16": "complex128",
}
_BYTE_ORDERS = {"<": False, ">": True}  # whether big-endian; `|`, no order, is for int8

_WRITTEN: dict[DTypeName, str] = {name: f"{'|' if code == 'i1' else '<'}{code}" for code, name in _DESCRIPTIONS.items()}
SUPPORTED = (
    "send float16, float32, float64, int8, int32, complex64 or complex128 (bfloat16, float8_e4m3: as safetensors or "
    "octet-stream)"
)

_STRING = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_INTEGER = re.compile(r"([0-9]{1,19})L?(?![0-9A-Za-z_.])")  # 19 digits hold every size up to 2^63; L is Python 2's
_SPACE = re.compile(r"[ \t\r\n]*")


class _Reader:
    """Reads one token after the other. Raises InvalidMatrix at the first token that the grammar does not allow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._skip_space()

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()

    def _pass(self, length: int) -> None:
        self._at += length
        self._skip_space()

    def takes(self, mark: str) -> bool:
        """Consumes `mark` if it comes next; returns whether it did."""
        found = self._text.startswith(mark, self._at)
        if found:
            self._pass(len(mark))
        return found

    def expect(self, mark: str) -> None:
        if not self.takes(mark):
            raise self.refusal(f"expected {mark!r}")

    def string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self.refusal("expected a quoted string")
        self._pass(len(match[0]))
        return match[1] or match[2] or ""

    def size(self) -> int:
        match = _INTEGER.match(self._text, self._at)
        if match is None or int(match[1]) >= 2**63:
            raise self.refusal("a size in `shape` must be a whole number from 0 to 2^63 - 1")
        self._pass(len(match[0]))
        return int(match[1])

    def sizes(self) -> tuple[int, ...]:
        """A tuple of integers: `()`, `(3,)`, `(3, 4)`, `(3, 4,)`."""
        self.expect("(")
        found: list[int] = []
        while not self.takes(")"):
            found.append(self.size())
            if not self.takes(","):
                self.expect(")")
                break
        return tuple(found)

    def truth(self) -> bool:
        if self.takes("True"):
            return True
        if self.takes("False"):
            return False
        raise self.refusal("`fortran_order` must be True or False")

    def at_end(self) -> bool:
        return self._at == len(self._text)

    def refusal(self, why: str) -> InvalidMatrix:
        return InvalidMatrix(f"The npy header is not sound at {excerpt(self._text[self._at :].rstrip())}: {why}.")


def _description(reader: _Reader) -> str:
    if reader.takes("[") or reader.takes("("):
        raise UnsupportedDType(f"A matrix has one plain element type, not a structured one; {SUPPORTED}.")
    return reader.string()


_VALUES = {"descr": _description, "fortran_order": _Reader.truth, "shape": _Reader.sizes}


def _fields(text: str) -> tuple[str, bool, tuple[int, ...]]:
    """descr, fortran_order and shape out of a header's text."""
    reader = _Reader(text)
    found: dict[str, object] = {}
    reader.expect("{")
    while not reader.takes("}"):
        key = reader.string()
        if key not in _VALUES or key in found:
            raise reader.refusal(f"the key {excerpt(key)} is unknown or comes twice")
        reader.expect(":")
        found[key] = _VALUES[key](reader)
        if not reader.takes(","):
            reader.expect("}")
            break
    if not reader.at_end():
        raise reader.refusal("the header goes on after its dict")
    match found:
        case {"descr": str(descr), "fortran_order": bool(fortran_order), "shape": tuple(shape)}:
            return descr, fortran_order, shape
    raise InvalidMatrix("The npy header must have descr, fortran_order and shape.")


def _element_type(descr: str) -> tuple[DTypeName, bool]:
    """The element type that an npy header names, and whether it is big-endian. Raises UnsupportedDType."""
    order, code = descr[:1], descr[1:]
    if code in _DESCRIPTIONS and (order in _BYTE_ORDERS or descr == "|i1"):
        return _DESCRIPTIONS[code], _BYTE_ORDERS.get(order, False)
    raise UnsupportedDType(f"The npy element type {excerpt(descr)} is not taken here; {SUPPORTED}.")


def _header(head: bytes) -> tuple[MatrixHeader]:
    """The matrix that a whole header speaks of."""
    version = (head[6], head[7])
    encoding = "utf-8" if version == (3, 0) else "latin-1"
    try:
        text = head[len(MAGIC) + 2 + _VERSIONS[version] :].decode(encoding)
    except UnicodeDecodeError:
        raise InvalidMatrix("The npy header is not UTF-8, as version 3 has it.") from None
    descr, fortran_order, shape = _fields(text)
    dtype, big_endian = _element_type(descr)
    return (MatrixHeader(dtype, check_shape(dtype, shape), fortran_order=fortran_order, big_endian=big_endian),)


_kept_header = lru_cache(maxsize=256)(_header)  # matrices of one shape have one header


class NpyParser(MatrixParser):
    """One matrix in an .npy body, versions 1 to 3, either element order, either byte order."""

    def finish(self) -> None:
        if not MAGIC.startswith(self._head[: len(MAGIC)]):  # it may be shorter than a header: text, say
            raise InvalidMatrix(NOT_NPY)
        super().finish()

    def _header_bytes(self, head: bytearray) -> int:
        prefix_bytes = len(MAGIC) + 2
        if len(head) < prefix_bytes:
            return prefix_bytes
        version = (head[6], head[7])
        if not head.startswith(MAGIC) or version not in _VERSIONS:
            raise InvalidMatrix(NOT_NPY)
        prefix_bytes += _VERSIONS[version]
        if len(head) < prefix_bytes:
            return prefix_bytes
        length = int.from_bytes(head[8:prefix_bytes], "little")
        if length > MAX_HEADER_BYTES:
            raise InvalidMatrix(f"The npy header claims {length} bytes; {MAX_HEADER_BYTES} are the most read here.")
        return prefix_bytes + length

    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        return _kept_header(head) if len(head) <= KEPT_BYTES else _header(head)


def npy_header(dtype: DTypeName, shape: tuple[int, ...]) -> bytes:
    """The header of an .npy file of version 1, padded to a multiple of 64 bytes. Raises UnsupportedDType if numpy lacks
    the type.
    """
    if dtype not in _WRITTEN:
        raise UnsupportedDType(f"npy has no {dtype}; ask for application/x-safetensors or application/octet-stream.")
    text = f"{{'descr': '{_WRITTEN[dtype]}', 'fortran_order': False, 'shape': {shape}, }}"
    prefix_bytes = len(MAGIC) + 4
    padding = -(prefix_bytes + len(text) + 1) % ALIGNMENT_BYTES
    header = text.encode("ascii") + b" " * padding + b"\n"
    return MAGIC + bytes((1, 0)) + len(header).to_bytes(2, "little") + header
