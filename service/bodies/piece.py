"""What a body comes in: bytes, or a view of a buffer that is used again once no view of it is left."""

from __future__ import annotations

from typing import cast

Text = bytes | bytearray  # what can be searched
Piece = bytes | memoryview  # a view begins where its buffer does


def text_of(piece: Piece) -> Text:
    """The same bytes to be searched, without a copy; there may be others after them."""
    return cast(Text, piece.obj) if isinstance(piece, memoryview) else piece
