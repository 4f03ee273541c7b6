"""How Celery logs that a child process ended in the middle of a task."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

LOGGER = "celery.worker.request"
_LOST = "WorkerLostError"
_EXIT_CODE = re.compile(r"exitcode (\d+)")


class ChildEnds(logging.Filter):
    """Drops the line if the child ended with one of `own_exits`: it has said why, as for a job that was cancelled. Of
    other lines it drops the traceback, which is one of the pool's own code."""

    def __init__(self, own_exits: Collection[int]) -> None:
        super().__init__()
        self._own_exits = own_exits

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if _LOST not in text:
            return True
        record.exc_info = record.exc_text = None
        code = _EXIT_CODE.search(text)
        return code is None or int(code[1]) not in self._own_exits
