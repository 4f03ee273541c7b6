"""Parses matrices from a body that is fed piece by piece: what every format has in common.

Nothing in the body is trusted: sizes are computed in Python's unbounded integers and compared with each other before
anything is allocated, a header has a size limit, and a body that is too short or too long is refused. Whatever the
body's element order, sinks get little-endian, row-major (C order) elements, and memory stays bounded: elements that are
in that order already pass through uncopied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Self

from jobs.errors import InvalidMatrix
from jobs.formats.element_order import Reordered, Sink, in_storage_order
from jobs.formats.elements import matrix_bytes
from kernels.model.numerics import DTYPES, DTypeName

MAX_ADDRESSABLE_BYTES = 2**63  # numpy counts elements and bytes in signed 64-bit integers
SHOWN_CHARACTERS = 40
PEEK_BYTES = 256  # a header up to this size is read in one step


def excerpt(text: str) -> str:
    """A caller's text, safe to quote in a message: escaped and cut."""
    return ascii(text[:SHOWN_CHARACTERS]) + ("…" if len(text) > SHOWN_CHARACTERS else "")


def check_shape(dtype: DTypeName, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an operand: (rows, columns) or (batch, rows, columns). Raises InvalidMatrix.

    An axis may be empty. The others must still be sizes that numpy can hold, because it multiplies them up.
    """
    if len(shape) not in (2, 3):
        raise InvalidMatrix(
            f"A matrix has 2 axes (rows, columns) or 3 (batch, rows, columns); this one has {len(shape)}."
        )
    if any(size < 0 for size in shape):
        raise InvalidMatrix("The sizes in a shape must not be negative.")
    if prod(size for size in shape if size) * DTYPES[dtype].itemsize >= MAX_ADDRESSABLE_BYTES:
        raise InvalidMatrix("The shape is larger than any memory; its sizes multiply to 2^63 bytes or more.")
    return tuple(shape)


@dataclass(frozen=True, slots=True)
class MatrixHeader:
    """The header of one matrix in a body."""

    dtype: DTypeName
    shape: tuple[int, ...]
    name: str = ""  # the tensor's, where the format has names
    fortran_order: bool = False  # elements come with the first index running fastest
    big_endian: bool = False
    bytes: int = field(init=False, compare=False)  # of the elements

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", matrix_bytes(self.dtype, self.shape))


OpenSink = Callable[[MatrixHeader], Sink]


class _Section:
    """One matrix of a body: where its elements go, and how many bytes of them are still to come."""

    def __init__(self, header: MatrixHeader, reordered: Reordered) -> None:
        self.header = header
        self.reordered = reordered
        self.missing_bytes = header.bytes


class MatrixParser(ABC):
    """Feed it the body, then `finish`. Every failure is one of our errors; InvalidMatrix unless said otherwise.

    `open_sink` is called once per matrix, as soon as the header is known to be sound: that is where room is reserved.
    `body_bytes` is the body's length where it is known beforehand. `staging_dir` takes the temporary file that a large
    Fortran-order matrix is transposed in; leaving the context removes it.
    """

    def __init__(self, open_sink: OpenSink, *, body_bytes: int | None = None, staging_dir: Path | None = None) -> None:
        self._open_sink: OpenSink | None = open_sink
        self._body_bytes = body_bytes
        self._staging_dir = staging_dir
        self._head = bytearray()
        self._sections: list[_Section] | None = None
        self._current = 0

    @abstractmethod
    def _header_bytes(self, head: bytearray) -> int:
        """The length of the header in bytes, as far as `head` shows. A result larger than `head` asks for more data."""

    @abstractmethod
    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        """The matrices in the order in which their elements follow."""

    @property
    def headers(self) -> tuple[MatrixHeader, ...]:
        """The matrices in the body; empty until its header is complete."""
        return tuple(section.header for section in self._sections or ())

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """The next bytes of the body. Raises UnsupportedDType, InvalidMatrix, and whatever the sinks raise."""
        view = memoryview(data)
        if self._sections is None:
            view = self._take_header(view)
        if view.nbytes:
            self._take_elements(view)

    def finish(self) -> None:
        """Ends the body. Raises InvalidMatrix if bytes are missing; otherwise passes on what was held back."""
        if self._sections is None:
            self._take_header(memoryview(b""))
        if self._sections is None:
            raise InvalidMatrix("The body ends inside its header; send it whole.")
        if missing := sum(section.missing_bytes for section in self._sections):
            raise InvalidMatrix(f"The body ends too early: {missing} bytes of elements are missing.")
        for section in self._sections:
            section.reordered.finish()

    def _take_header(self, view: memoryview) -> memoryview:
        """Reads what it can of the header; returns what is left of `view`."""
        if not self._head:
            begin = bytearray(view[:PEEK_BYTES])
            if (whole := self._header_bytes(begin)) <= len(begin):
                self._head, view = begin[:whole], view[whole:]
        while len(self._head) < (need := self._header_bytes(self._head)):
            if not view.nbytes:
                return view
            missing = need - len(self._head)
            self._head += view[:missing]
            view = view[missing:]
        assert self._open_sink is not None, "it is not closed"
        headers = self._read_header(bytes(self._head))
        self._check_length(headers)
        self._sections = []
        for header in headers:
            sink = self._open_sink(header)
            self._sections.append(_Section(header, self._reordered(sink, header)))
        return view

    def _reordered(self, sink: Sink, header: MatrixHeader) -> Reordered:
        return in_storage_order(
            sink,
            header.shape,
            DTYPES[header.dtype].itemsize,
            fortran_order=header.fortran_order,
            big_endian=header.big_endian,
            staging_dir=self._staging_dir,
            number_bytes=DTYPES[DTYPES[header.dtype].real].itemsize,
        )

    def _check_length(self, headers: Sequence[MatrixHeader]) -> None:
        if self._body_bytes is None:
            return
        promised = sum(header.bytes for header in headers)
        follow = self._body_bytes - len(self._head)
        if promised != follow:
            raise InvalidMatrix(f"The header speaks of {promised} bytes of elements, but {follow} follow it.")

    def _take_elements(self, view: memoryview) -> None:
        assert self._sections is not None
        while view.nbytes:
            if self._current == len(self._sections):
                raise InvalidMatrix("The body goes on after the last element; send nothing behind it.")
            section = self._sections[self._current]
            piece = view[: section.missing_bytes]
            if piece.nbytes:
                section.reordered.entry.write(piece)
                section.missing_bytes -= piece.nbytes
                view = view[piece.nbytes :]
            if not section.missing_bytes:
                self._current += 1

    def close(self) -> None:
        """Drops temporary files and the reference to `open_sink`, usually a method of the parser's owner; otherwise
        that cycle would be freed only by garbage collection. May be called twice.
        """
        self._open_sink = None
        for section in self._sections or ():
            section.reordered.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class OctetParser(MatrixParser):
    """Parses a body that consists only of elements, little-endian and row-major; `header` comes from elsewhere in the
    request.
    """

    def __init__(self, header: MatrixHeader, open_sink: OpenSink, *, body_bytes: int | None = None) -> None:
        super().__init__(open_sink, body_bytes=body_bytes)
        self._header = header
        check_shape(header.dtype, header.shape)

    def _header_bytes(self, head: bytearray) -> int:
        return 0

    def _read_header(self, head: bytes) -> Sequence[MatrixHeader]:
        return (self._header,)
