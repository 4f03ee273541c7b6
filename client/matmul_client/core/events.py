"""Reads a job's event stream and resumes it after an interruption, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matmul_client.core.errors import MatmulError, Unreachable, document_in, error_of, foreign_reply
from matmul_client.core.exchange import is_passing, pause_s
from matmul_client.core.wire import LONGEST_S, NoReply, Reply, Request

FINAL = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a job: `queued`, `running`, `progress`, or how it ended."""

    id: str
    name: str
    data: Mapping[str, Any]


class EventFeed:
    """Reads `text/event-stream`. Ends with the job's last event."""

    def __init__(self, job_id: str, max_retries: int) -> None:
        self._target = f"/v1/jobs/{job_id}/events"
        self._max_retries = max_retries
        self._tries = 0
        self._last_id: str | None = None
        self._rest = b""
        self.ended = False

    def request(self) -> Request:
        """The next to send; it goes on after the last event that was read."""
        self._rest = b""
        headers = {"accept": "text/event-stream", **({"last-event-id": self._last_id} if self._last_id else {})}
        return Request("GET", self._target, headers)

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that are whole with these bytes."""
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        for block in blocks:
            event = _event(block)
            if event is not None:
                self._tries, self._last_id = 0, event.id
                self.ended = self.ended or event.name in FINAL
                yield event

    def broken(self, outcome: Reply | NoReply) -> float:
        """The pause before the next request, after a refusal or an interruption. Raises errors that will not pass."""
        if isinstance(outcome, Reply) and outcome.status == 204:  # nothing more comes
            self.ended = True
            return 0.0
        error: MatmulError = (
            Unreachable(outcome.reason)
            if isinstance(outcome, NoReply)
            else error_of(outcome.status, outcome.headers, outcome.body)
        )
        pause = pause_s(error, self._tries)
        self._tries += 1
        if self._tries > self._max_retries or not is_passing(error) or pause > LONGEST_S:
            raise error
        return pause


def _event(block: bytes) -> Event | None:
    """The event; None for a comment, and for the reconnection time that browsers use. Raises ServiceFailed."""
    lines = block.decode(errors="replace").split("\n")
    fields = dict(line.split(": ", 1) for line in lines if ": " in line and line[0] != ":")
    if "event" not in fields:
        return None
    data = document_in(fields.get("data", "{}").encode())
    if data is None:
        raise foreign_reply(200)
    return Event(fields.get("id", ""), fields["event"], data)
