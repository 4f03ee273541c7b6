"""Python imports this at its start, where this folder is on PYTHONPATH: what is interned from then on is looked at.

Without that it does nothing.
"""

from __future__ import annotations

import os
import re
import sys

NOTED_IN = "INTERNED_NAMES_NOTED_IN"  # a file
_NAME = re.compile(r"[a-z]{1,8}_[0-9a-f]{32}|[0-9a-f]{64}")
_intern = sys.intern


def _noted(text: str) -> str:
    if _NAME.search(text):
        with open(os.environ[NOTED_IN], "a") as file:  # a line is one write, so those of several processes do not mix
            file.write(f"{os.getpid()} {text}\n")
    return _intern(text)


if NOTED_IN in os.environ:
    sys.intern = _noted
