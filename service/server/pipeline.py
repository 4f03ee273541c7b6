"""uvicorn's httptools protocol, extended for pipelined requests: answers, including refusals, are sent in the order of
their requests, and all pending requests learn when the client disconnects.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class PipelinedProtocol(HttpToolsProtocol):
    """Remembers the cycle that is being answered; uvicorn only knows that of the latest request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answering: RequestResponseCycle | None = None
        self._last_words: bytes | None = None  # a refusal that waits until earlier requests are answered

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def is_answering(self) -> bool:
        """Whether a request that has been received, entirely or in part, has no complete answer yet."""
        return bool(self.pipeline) or (self._answering is not None and not self._answering.response_complete)

    def data_received(self, data: bytes) -> None:
        if self._last_words is None:
            super().data_received(data)

    def on_response_complete(self) -> None:
        if self._last_words is None or self.pipeline:
            super().on_response_complete()
        elif not self.transport.is_closing():
            self.transport.write(self._last_words)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answering is not None:
            _send_home(self._answering)
        self.pipeline.clear()
        super().connection_lost(exc)

    def end_with(self, words: bytes, own: RequestResponseCycle | None) -> None:
        """Sends `words`, the answer to the request being received, and closes the connection, after earlier requests
        are answered. `own` is that request's cycle, if its head is complete.
        """
        if own is not None and own is self._answering and not own.response_complete:
            _send_home(own)
            if not own.response_started:
                self.transport.write(words)
            self.transport.close()
            return
        if self.pipeline and self.pipeline[0][0] is own:
            self.pipeline.popleft()
        if self.is_answering:
            self._last_words = words
            return
        self.transport.write(words)
        self.transport.close()


def _send_home(cycle: RequestResponseCycle) -> None:
    """Makes the application stop reading, and discards its answer."""
    cycle.disconnected = True
    cycle.message_event.set()
