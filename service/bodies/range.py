"""The body of a PUT to an upload: elements, as they are."""

from __future__ import annotations

from jobs.matrices.ranged.writer import RangeWriter
from service.bodies.piece import Piece
from service.bodies.reader import Reader


class RangeReader(Reader[None]):
    """Hands them on to the upload's file."""

    def __init__(self, writer: RangeWriter) -> None:
        self._writer = writer

    def feed(self, data: Piece) -> None:
        self._writer.write(data)

    def finish(self) -> None:
        self._writer.finish()

    def close(self) -> None:
        self._writer.close()
