"""The index of the matrix stores, in Redis: who claims which matrix until when, and how many bytes are kept.

Each method is one round trip and one atomic step (`jobs/matrices/lua`), so the bounds hold over all processes. A claim
is charged the matrix's bytes, at least MIN_CHARGE_BYTES; elements that several owners claim are charged to each, and
kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import redis

from jobs.errors import InvalidRequest, MatrixNotFound, StoreFull, StoreUnavailable
from jobs.formats.elements import matrix_bytes
from jobs.matrices.interface import MatrixInfo
from jobs.models import ANONYMOUS
from jobs.redis.client import translated
from jobs.redis.scripts import SERVER_CLOCK, RedisScripts
from kernels.model.numerics import DTypeName

LUA_DIR = Path(__file__).parent / "lua"
MIN_CHARGE_BYTES = 4096  # charge of the smallest matrix: its index entry and file take this much; as in lua/common.lua
US = 1_000_000  # microseconds in a second


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits on the bytes kept."""

    all_bytes: int
    owner_bytes: int
    anonymous_bytes: int | None = None  # limit for the one owner of a server without keys; None: as for any owner

    def of(self, owner: str) -> int:
        """The byte limit of an owner."""
        return self.anonymous_bytes if owner == ANONYMOUS and self.anonymous_bytes is not None else self.owner_bytes


@dataclass(frozen=True, slots=True)
class Elements:
    """What a store keeps of a matrix."""

    data: str  # the name they are kept under
    bytes: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to be made: the matrix, its owner, for how long, and where its elements are."""

    id: str
    data: str
    dtype: DTypeName
    shape: tuple[int, ...]
    owner: str
    ttl_s: float
    later: bool = False  # the claim is made together with the job that the matrix is for
    charged: int | None = None  # bytes reserved, if not all of them at once
    upload: str = ""  # the id whose claim reserved space for these elements; this claim replaces it

    @property
    def bytes(self) -> int:
        return matrix_bytes(self.dtype, self.shape)


class MatrixIndex:
    """`chunk_bytes` is what the store keeps under one key; 0 if it keeps elements outside Redis. `clock` is for tests
    (`RedisScripts`).

    All methods raise StoreUnavailable; those that write raise StoreFull if Redis has no memory left.
    """

    def __init__(
        self,
        client: redis.Redis,
        key_prefix: str,
        bounds: Bounds,
        *,
        chunk_bytes: int = 0,
        clock: str = SERVER_CLOCK,
    ) -> None:
        self._client = client
        self._prefix = key_prefix
        self.bounds = bounds
        self._chunk_bytes = chunk_bytes
        self._scripts = RedisScripts(client, key_prefix, LUA_DIR, clock=clock)

    def _key(self, matrix_id: str) -> str:
        return f"{self._prefix}matrix:{matrix_id}"

    def claim(self, claim: Claim) -> tuple[MatrixInfo, str]:
        """Makes the claim. Returns it, and the name under which the elements are kept, which differs from `claim.data`
        if the same contents are already stored. Raises StoreFull beyond a limit, before anything is written.
        """
        shape = "x".join(map(str, claim.shape))
        charged = claim.bytes if claim.charged is None else claim.charged
        reply = self._scripts.run(
            "claim",
            *(claim.id, claim.owner, claim.dtype, shape, charged, int(claim.ttl_s * US), claim.data, claim.upload),
            *(self._chunk_bytes, self.bounds.all_bytes, self.bounds.of(claim.owner)),
        )
        if reply[0] != b"ok":
            raise self._refusal(reply, claim, charged)
        made, ends, data = reply[1:]
        info = MatrixInfo(claim.id, claim.dtype, claim.shape, int(made) / US, int(ends) / US)
        return info, data.decode()

    def grow(self, claim: Claim, more_bytes: int) -> None:
        """Charges the claim `more_bytes` more. Raises StoreFull beyond a limit, StoreUnavailable if the claim has
        ended.
        """
        bounds = (self.bounds.all_bytes, self.bounds.of(claim.owner))
        reply = self._scripts.run("grow", claim.id, claim.owner, more_bytes, *bounds)
        if reply[0] != b"ok":
            raise self._refusal(reply, claim, more_bytes)

    def _refusal(self, reply: Sequence[bytes | int], claim: Claim, need_bytes: int) -> Exception:
        match reply:
            case [b"full" | b"owner_full" as outcome, int(kept)]:
                return no_room(outcome, max(need_bytes, MIN_CHARGE_BYTES), kept, self.bounds, claim.owner)
            case [b"taken", *_]:
                return InvalidRequest(f"{claim.id} is another matrix already, of another shape or element type.")
        return StoreUnavailable("The uploaded elements were lost before the last of them came; upload them again.")

    def find(self, matrix_id: str, owner: str) -> MatrixInfo:
        """The matrix as its owner sees it. Raises MatrixNotFound."""
        return _found(matrix_id, self._scripts.run("find", matrix_id, owner))

    @translated()
    def elements(self, matrix_id: str) -> Elements:
        """The stored elements of the matrix, whoever claims it. Raises MatrixNotFound."""
        data, size = cast(list[bytes | None], self._client.hmget(self._key(matrix_id), ["data", "bytes"]))
        if data is None or size is None:
            raise MatrixNotFound
        return Elements(data.decode(), int(size))

    @translated()
    def all_elements(self, matrix_ids: Sequence[str]) -> list[Elements | None]:
        """As `elements`, of several matrices; None for each that does not exist."""
        with self._client.pipeline(transaction=False) as pipeline:
            for matrix_id in matrix_ids:
                pipeline.hmget(self._key(matrix_id), ["data", "bytes"])
            rows = pipeline.execute()
        return [None if data is None or size is None else Elements(data.decode(), int(size)) for data, size in rows]

    def touch(self, matrix_id: str, owner: str, ttl_s: float) -> MatrixInfo:
        """Extends a claim; never shortens it. Raises MatrixNotFound."""
        return _found(matrix_id, self._scripts.run("touch", matrix_id, owner, int(ttl_s * US), self._chunk_bytes))

    def release(self, matrix_id: str, owner: str, *, made_at: float | None = None) -> Elements | None:
        """Drops a claim. Returns the elements to be removed if it was the last claim on them. With `made_at`, drops
        only the claim made at that time, not one that replaced it. Raises MatrixNotFound.
        """
        made_us = "" if made_at is None else round(made_at * US)
        there, *orphan = self._scripts.run("release", matrix_id, owner, made_us)
        if not there:
            raise MatrixNotFound
        return Elements(orphan[0].decode(), int(orphan[1])) if orphan else None

    def expire(self, limit: int) -> tuple[int, list[Elements]]:
        """Drops at most `limit` expired claims. Returns how many, and the elements to be removed."""
        count, *flat = self._scripts.run("expire", limit)
        return count, [Elements(flat[i].decode(), int(flat[i + 1])) for i in range(0, len(flat), 2)]

    @translated()
    def used_bytes(self, owner: str | None) -> int:
        """Bytes kept in total, or under one owner's claims."""
        field = "all" if owner is None else f"of:{owner}"
        return int(cast(bytes, self._client.hget(f"{self._prefix}matrices:bytes", field)) or 0)

    @translated()
    def check_room(self, need_bytes: int, owner: str) -> None:
        """Raises StoreFull if there is no room for that many more bytes now."""
        need_bytes = max(need_bytes, MIN_CHARGE_BYTES)
        kept = self._client.hmget(f"{self._prefix}matrices:bytes", ["all", f"of:{owner}"])
        kept_all, kept_owner = (int(value or 0) for value in cast(list[bytes | None], kept))
        if kept_all + need_bytes > self.bounds.all_bytes:
            raise no_room(b"full", need_bytes, kept_all, self.bounds, owner)
        if kept_owner + need_bytes > self.bounds.of(owner):
            raise no_room(b"owner_full", need_bytes, kept_owner, self.bounds, owner)


def _found(matrix_id: str, reply: Sequence[bytes]) -> MatrixInfo:
    """Parses a reply about a matrix. Raises MatrixNotFound if it is empty."""
    if not reply:
        raise MatrixNotFound
    dtype, shape, made, ends = (part.decode() for part in reply)
    sizes = tuple(map(int, shape.split("x")))
    return MatrixInfo(matrix_id, cast(DTypeName, dtype), sizes, int(made) / US, int(ends) / US)


def no_room(outcome: bytes, need_bytes: int, kept_bytes: int, bounds: Bounds, owner: str = "") -> StoreFull:
    """The error for a script's refusal: `full` means the limit on all bytes, `owner_full` that on one owner."""
    of_all = outcome == b"full"
    whose, max_bytes = ("The store", bounds.all_bytes) if of_all else ("This API key", bounds.of(owner))
    return StoreFull(
        f"{whose} has no room for {need_bytes} more bytes: {kept_bytes} of {max_bytes} are used; delete matrices that "
        "are no longer needed, or try again later."
    )
