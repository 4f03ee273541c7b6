"""Imports of a program, which all stay until it ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_imports() -> Iterator[None]:
    """What is imported inside is never searched for garbage, neither meanwhile nor later: there is none to speak of,
    and looking would take a good part of a program's start.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
