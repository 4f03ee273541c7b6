"""uvicorn's httptools protocol where requests come faster than they are answered: each answer, a refusal too, stands in
the place of its request, and all of them learn that the client is gone.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class PipelinedProtocol(HttpToolsProtocol):
    """Keeps the cycle that is being answered: uvicorn only knows the one whose request came last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answering: RequestResponseCycle | None = None
        self._last_words: bytes | None = None  # a refusal that waits until what came before it is answered

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    @property
    def is_answering(self) -> bool:
        """Whether a request that came whole, or its first part, has no complete answer yet."""
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
        """Closes the connection after `words`, the answer to the request that is coming in. `own` is that request's
        cycle, where its head came whole. What came before it is answered first."""
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
    """The application stops reading, and its answer goes nowhere."""
    cycle.disconnected = True
    cycle.message_event.set()
