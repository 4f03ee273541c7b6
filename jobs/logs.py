"""Logging for every process: structlog's lines and, in the same form, those of libraries that use `logging`."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from jobs.settings import Settings

# Celery logs several lines for each task that the ledger records better, and urllib3 logs each export of spans.
_TALKATIVE = ("celery.worker.strategy", "celery.worker.request", "celery.pool", "celery.app.trace", "urllib3")
# These warn about what callers send.
_OF_CALLERS = ("opentelemetry.trace.span", "opentelemetry.trace.propagation.tracecontext")

# These repeat that Redis is unavailable.
_REPETITIVE = frozenset({"celery.worker.consumer.consumer", "worker.device.retry"})
_AGAIN_S = 10.0


class Seldom(logging.Filter):
    """A filter that lets repeated messages about an outage pass only once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}  # when

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.msg.get("event") if isinstance(record.msg, dict) else record.msg
        return self._passes(record.name, str(message))

    def drop(self, logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
        """The same for the service's own lines."""
        if not self._passes(logger.name, str(line.get("event"))):
            raise structlog.DropEvent
        return line

    def _passes(self, name: str, message: str) -> bool:
        if name not in _REPETITIVE:
            return True
        key, now = (name, message), time.monotonic()
        if now - self._said.get(key, -_AGAIN_S) < _AGAIN_S:
            return False
        self._said[key] = now
        return True


# Returns the fields that describe the current work; called for each line. A worker thread has those of its job.
about: ContextVar[Callable[[], Mapping[str, object]]] = ContextVar("about", default=dict)


def add_context(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Adds the fields of the current work (`about`) to every line."""
    for name, value in about.get()().items():
        line.setdefault(name, value)
    return line


def drop_coloured_copy(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Drops uvicorn's second copy of its message, which contains terminal colour codes."""
    line.pop("color_message", None)
    return line


_OWN: Sequence[Processor] = (
    add_context,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
_FOREIGN: Sequence[Processor] = (*_OWN, structlog.stdlib.ExtraAdder(), drop_coloured_copy)


class Lines:
    """Writes the service's own lines to where the handler writes those of libraries, each as a whole. By way of
    `logging` a line would take more than twice as long."""

    def __init__(self, handler: logging.StreamHandler[TextIO], name: str) -> None:
        self.name = name
        self._handler = handler

    def msg(self, line: str) -> None:
        """A line that cannot be written ends nothing, as with a handler."""
        self._handler.acquire()
        try:
            self._handler.stream.write(f"{line}\n")
            self._handler.flush()
        except (OSError, ValueError):  # the other end is gone, or it is closed
            pass
        finally:
            self._handler.release()

    debug = info = warning = error = critical = msg


def configure_logs(settings: Settings) -> None:
    """Logs to stderr, one line per event, according to `log_format` and `log_level`. May be called again."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler, seldom, rendered = logging.StreamHandler(sys.stderr), Seldom(), _rendered(settings)
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(processors=[remove_meta, *rendered], foreign_pre_chain=_FOREIGN)
    handler.setFormatter(formatter)
    handler.addFilter(seldom)
    named = structlog.stdlib.LoggerFactory(ignore_frame_names=[__name__])
    structlog.configure(
        processors=[seldom.drop, *_OWN, *rendered],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *name: Lines(handler, named(*name).name),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in _OF_CALLERS:
        logging.getLogger(name).setLevel(max(level, logging.ERROR))


def _rendered(settings: Settings) -> Sequence[Processor]:
    """Makes a line's text."""
    if settings.log_format == "json":
        return structlog.processors.format_exc_info, structlog.processors.JSONRenderer()
    return (
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # others show variables, and secrets with them
        ),
    )
