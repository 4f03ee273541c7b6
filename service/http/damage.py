"""Reports damaged matrices to the operator, not only to the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from jobs.errors import MatrixDamaged
from service.context import Context

log = structlog.get_logger(__name__)


@contextmanager
def damage_reported(context: Context, matrix_id: str) -> Iterator[None]:
    """Logs and counts a MatrixDamaged that passes through."""
    try:
        yield
    except MatrixDamaged:
        context.metrics.damaged.inc()
        log.error("the stored bytes of a matrix are not those that came in", matrix=matrix_id)
        raise
