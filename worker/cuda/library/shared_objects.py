"""NVIDIA's libraries as this process finds them: on the loader's own path, or in wheels, which lie beside CuPy."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger(__name__)


@cache
def shared_object(*names: str) -> Any | None:
    """The first of these that loads; others that are loaded later find its symbols. None where none does. One that is
    installed as a wheel and does not load is logged: it needs another release of a library that is loaded already."""
    for name in names:
        for candidate in (name, *(in_wheels := _in_wheels(name))):
            try:
                return ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                if candidate in in_wheels:
                    log.warning("a library of NVIDIA's is installed and cannot be loaded", reason=str(error))
    return None


def _in_wheels(name: str) -> tuple[str, ...]:
    """NVIDIA's wheels share the package `nvidia`, with a folder for each library or for each release of CUDA."""
    spec = find_spec("nvidia")
    roots = spec.submodule_search_locations if spec is not None else None
    return tuple(str(path) for root in roots or () for path in sorted(Path(root).rglob(f"lib/{name}")))
