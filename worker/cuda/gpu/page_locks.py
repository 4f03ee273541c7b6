"""Slots of the store that are registered with CUDA, so that the device copies from and to them at the speed of the bus.
Registering takes longer than such a copy, so it is done once.
"""

from __future__ import annotations

from functools import partial
from threading import RLock
from typing import Protocol

import structlog

from jobs.matrices.slot_memory import SlotMemory

DEFAULT = 0  # cudaHostRegisterDefault

log = structlog.get_logger(__name__)


class Registrar(Protocol):
    """The part of `cupy.cuda.runtime` that is used here."""

    @property
    def CUDARuntimeError(self) -> type[Exception]: ...

    def hostRegister(self, ptr: int, size: int, flags: int) -> None: ...

    def hostUnregister(self, ptr: int) -> None: ...


class PageLocks:
    """A slot stays registered until the store unmaps its memory. Safe to share between threads."""

    def __init__(self, runtime: Registrar) -> None:
        self._runtime = runtime
        self._lock = RLock()  # freeing one slot's map may come in the middle of another's
        self._locked: set[int] = set()
        self._has_complained = False

    def lock(self, memory: SlotMemory | None) -> bool:
        """Registers a slot; returns whether it is registered. If the system refuses, and for a slot on a disk, copies
        still work through the driver's buffers.
        """
        if memory is None or memory.is_on_disk:
            return False
        with self._lock:
            return memory.address in self._locked or self._registered(memory)

    def _registered(self, memory: SlotMemory) -> bool:
        try:
            self._runtime.hostRegister(memory.address, memory.bytes, DEFAULT)
        except self._runtime.CUDARuntimeError as error:
            if not self._has_complained:
                log.warning(
                    "the matrix store's memory cannot be registered with CUDA; copies are slow", error=str(error)
                )
            self._has_complained = True
            return False
        self._locked.add(memory.address)
        memory.before_unmapped(partial(self._unlock, memory.address))
        return True

    def _unlock(self, address: int) -> None:
        with self._lock:
            self._locked.discard(address)
            self._runtime.hostUnregister(address)
