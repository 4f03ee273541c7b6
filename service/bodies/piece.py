"""Pieces of a body: bytes, or a view of a buffer that is reused once no view of it is left."""

from __future__ import annotations

from typing import cast

Text = bytes | bytearray  # what can be searched
Piece = bytes | memoryview  # a view begins where its buffer does


def text_of(piece: Piece) -> Text:
    """A searchable object that begins with the same bytes, without a copy; other bytes may follow them."""
    return cast(Text, piece.obj) if isinstance(piece, memoryview) else piece
