"""A job's events as the text of an event stream, encoded once however many readers get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from jobs.models import JobEvent
from jobs.states import TERMINAL

PIECE_BYTES = 16_384  # about: a reader who is slow holds one piece, not all
FINAL = frozenset(state.value for state in TERMINAL)


@dataclass(frozen=True, slots=True)
class EventText:
    """Some events in pieces that are sent one after another."""

    pieces: tuple[bytes, ...]
    last_id: str
    is_end: bool  # of the job


def event_text(events: Sequence[JobEvent]) -> EventText | None:
    """The events' text; None if there are none."""
    return EventText(tuple(_pieces(events)), events[-1].id, events[-1].event in FINAL) if events else None


def _pieces(events: Iterable[JobEvent]) -> Iterator[bytes]:
    piece = bytearray()
    for event in events:
        piece += b"id: %s\nevent: %s\ndata: %s\n\n" % (
            event.id.encode(),
            event.event.encode(),
            orjson.dumps(event.data),
        )
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
