"""Logging for every process: structlog's lines and, in the same form, those of libraries that use `logging`."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

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
        if record.name not in _REPETITIVE:
            return True
        message = record.msg.get("event") if isinstance(record.msg, dict) else record.msg
        key, now = (record.name, str(message)), time.monotonic()
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


_SHARED: Sequence[Processor] = (
    add_context,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
    drop_coloured_copy,
)


def configure_logs(settings: Settings) -> None:
    """Logs to stderr, one line per event, according to `log_format` and `log_level`. May be called again."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(settings))
    handler.addFilter(Seldom())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    for name in _OF_CALLERS:
        logging.getLogger(name).setLevel(max(level, logging.ERROR))


def _formatter(settings: Settings) -> structlog.stdlib.ProcessorFormatter:
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.log_format == "json":
        last += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last += [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,  # others show variables, and secrets with them
            )
        ]
    return structlog.stdlib.ProcessorFormatter(processors=last, foreign_pre_chain=_SHARED)
