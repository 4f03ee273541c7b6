"""Copies of operands that stay on the device between jobs. Nothing here touches the device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


class Copy(Protocol):
    """Memory of the device with its layout; freed with the last reference to it."""

    @property
    def layout(self) -> _Sized: ...


class Operand(Protocol):
    """The identity of a copied operand."""

    @property
    def id(self) -> str | None: ...

    @property
    def expected_digest(self) -> int: ...


C = TypeVar("C", bound=Copy)
MAX_OFFERED = 16  # more than are ever under way


@dataclass(frozen=True, slots=True)
class Kept(Generic[C]):
    """A copy, and the digest of the bytes that were sent."""

    copy: C
    digest: int


class OperandCache(Generic[C]):
    """Recently used operands by content address, at most `limit_bytes` of them. For any threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._kept: OrderedDict[str, Kept[C]] = OrderedDict()
        self.bytes = 0

    def get(self, matrix_id: str) -> Kept[C] | None:
        with self._lock:
            kept = self._kept.get(matrix_id)
            if kept is not None:
                self._kept.move_to_end(matrix_id)
            return kept

    def keep(self, matrix_id: str, copy: C, digest: int) -> None:
        """Adds a copy, evicting the least recently used ones; a copy larger than the limit is not kept."""
        size = copy.layout.bytes
        with self._lock:
            if size > self._limit_bytes or matrix_id in self._kept:
                return
            while self.bytes + size > self._limit_bytes:
                _, oldest = self._kept.popitem(last=False)
                self.bytes -= oldest.copy.layout.bytes
            self._kept[matrix_id] = Kept(copy, digest)
            self.bytes += size

    def drop(self, matrix_id: str) -> None:
        """Drops an untrusted copy, if it is kept."""
        with self._lock:
            kept = self._kept.pop(matrix_id, None)
            if kept is not None:
                self.bytes -= kept.copy.layout.bytes

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self.bytes = 0


class OfferedProducts(Generic[C]):
    """Keeps products in device memory: each until its job's end is recorded, and the newest until the next product is
    made, which reuses its memory. Products that other jobs wait for become cached operands. Safe to share between
    threads.
    """

    def __init__(self, cache: OperandCache[C]) -> None:
        self._cache = cache
        self._lock = Lock()
        self._offered: OrderedDict[str, tuple[C, int]] = OrderedDict()
        self._newest: tuple[str, C, int] | None = None

    def offer(self, matrix_id: str, copy: C, digest: int) -> None:
        """A product that is right, and is stored with that digest."""
        with self._lock:
            self._offered[matrix_id] = copy, digest
            if len(self._offered) > MAX_OFFERED:  # their ends could not be recorded
                self._offered.popitem(last=False)

    def ended(self, matrix_id: str, *, awaited: bool) -> None:
        """The end of its job is recorded."""
        with self._lock:
            if (held := self._offered.pop(matrix_id, None)) is not None:
                if awaited:
                    self._cache.keep(matrix_id, *held)
                else:
                    self._newest = matrix_id, *held

    def next_product(self, operands: Sequence[Operand]) -> None:
        """Is about to be made, of these. A job may come for a product before that is known to be awaited."""
        with self._lock:
            held = [(name, *about) for name, about in self._offered.items()]
            held += [self._newest] if self._newest is not None else []
            self._newest = None
            for name, copy, digest in held:
                if any(operand.id == name for operand in operands):
                    self._cache.keep(name, copy, digest)

    def clear(self) -> None:
        with self._lock:
            self._offered.clear()
            self._newest = None


class Copies(Generic[C]):
    """The copies from which one product was computed; they are kept for other jobs only after the product passed its
    check.
    """

    def __init__(self, cache: OperandCache[C], operands: Sequence[Operand], copies: Sequence[C]) -> None:
        self._cache = cache
        self._copies = list(zip(operands, copies, strict=True))

    def keep(self) -> None:
        for operand, copy in self._copies:
            if operand.id is not None:
                self._cache.keep(operand.id, copy, operand.expected_digest)

    def drop(self) -> None:
        """Also what was kept by an earlier product."""
        for operand, _ in self._copies:
            if operand.id is not None:
                self._cache.drop(operand.id)
