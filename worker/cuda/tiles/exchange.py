"""Panels that all devices need are copied from the host only once, by one device in turn; the others copy them from
that device over the links between GPUs. So each byte crosses the host's memory and buses once, however many GPUs there
are.

All lanes load the same panels in the same order, each at its own pace. A lane waits only for lanes that are behind, so
there is no deadlock: the lane that has loaded least finds the panels that it needs published, and the buffers that it
overwrites already taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import cupy

from worker.device.cancellable_lock import LOOK_EVERY_S

ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled


@dataclass(slots=True)
class Offer:
    """A panel being copied from the host to one device, from which the others take it."""

    device: int  # as the process numbers them
    address: int
    bytes: int
    is_there: Any  # an event
    takers: list[Any] = field(default_factory=list)  # events, each behind a copy to another device


class Exchange:
    """Panels that `count` devices exchange; used by the threads of all of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._offers: dict[int, Offer] = {}
        self._changed = Condition()

    def is_brought_by(self, load: int, lane: int) -> bool:
        return load % self.count == lane

    def publish(self, load: int, offer: Offer) -> None:
        """Offers a panel whose copy from the host is on a stream."""
        with self._changed:
            self._offers[load] = offer
            self._changed.notify_all()

    def take(self, load: int, device: int, address: int, stream: Any, check_cancelled: Callable[[], None]) -> None:
        """Waits until the device that loads the panel has offered it, and puts the copy from there on the stream. Calls
        `check_cancelled` meanwhile, and raises what that raises."""
        with self._changed:
            while load not in self._offers:
                self._changed.wait(LOOK_EVERY_S)
                check_cancelled()
            offer = self._offers[load]
        stream.wait_event(offer.is_there)
        cupy.cuda.runtime.memcpyPeerAsync(address, device, offer.address, offer.device, offer.bytes, stream.ptr)
        taken = cupy.cuda.Event(disable_timing=True)
        taken.record(stream)
        with self._changed:
            offer.takers.append(taken)
            self._changed.notify_all()

    def wait_until_taken(self, load: int, stream: Any, check_cancelled: Callable[[], None]) -> None:
        """The stream goes on once all others have that panel: its memory may be written over."""
        with self._changed:
            offer = self._offers[load]
            while len(offer.takers) < self.count - 1:
                self._changed.wait(LOOK_EVERY_S)
                check_cancelled()
            del self._offers[load]
        for taken in offer.takers:
            stream.wait_event(taken)


def enable_peers(own: int, indices: list[int]) -> None:
    """The current device reads others' memory directly, where the machine allows it; else copies go by the host."""
    runtime = cupy.cuda.runtime
    for other in indices:
        if other == own or not runtime.deviceCanAccessPeer(own, other):
            continue
        try:
            runtime.deviceEnablePeerAccess(other)
        except runtime.CUDARuntimeError as error:
            if error.status != ALREADY_ENABLED:
                raise
