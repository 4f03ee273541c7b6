"""Copies of operands that stay on the device between jobs. Nothing here touches the device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


class Copy(Protocol):
    """Memory of the device with its layout; freed with the last reference to it."""

    @property
    def layout(self) -> _Sized: ...


C = TypeVar("C", bound=Copy)


class OperandCache(Generic[C]):
    """Recently used operands by content address, at most `limit_bytes` of them."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[str, C] = OrderedDict()
        self.bytes = 0

    def get(self, matrix_id: str) -> C | None:
        copy = self._kept.get(matrix_id)
        if copy is not None:
            self._kept.move_to_end(matrix_id)
        return copy

    def keep(self, matrix_id: str, copy: C) -> None:
        """Makes room by forgetting those not used for longest; one that alone is too large is not kept."""
        size = copy.layout.bytes
        if size > self._limit_bytes or matrix_id in self._kept:
            return
        while self.bytes + size > self._limit_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.layout.bytes
        self._kept[matrix_id] = copy
        self.bytes += size

    def drop(self, matrix_id: str) -> None:
        """Forgets one that is not to be trusted. Harmless where it is not kept."""
        copy = self._kept.pop(matrix_id, None)
        if copy is not None:
            self.bytes -= copy.layout.bytes

    def clear(self) -> None:
        self._kept.clear()
        self.bytes = 0


class Copies(Generic[C]):
    """The copies that one product was computed from: kept for other jobs once it is known to be right, not before."""

    def __init__(self, cache: OperandCache[C], ids: Sequence[str | None], copies: Sequence[C]) -> None:
        self._cache = cache
        self._named = [(matrix_id, copy) for matrix_id, copy in zip(ids, copies, strict=True) if matrix_id is not None]

    def keep(self) -> None:
        for matrix_id, copy in self._named:
            self._cache.keep(matrix_id, copy)

    def drop(self) -> None:
        """Also what was kept by an earlier product."""
        for matrix_id, _ in self._named:
            self._cache.drop(matrix_id)
