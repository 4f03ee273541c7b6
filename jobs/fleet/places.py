"""Identifies the matrix store that a process uses, so that a worker with a different store takes no jobs.

A directory is identified by a random name, stored as the target of a symbolic link in it, and by the inode of that
link, so that a copy of the directory counts as a different store. All processes on one Redis share the Redis store. A
bucket holds such a name in an object.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import redis

from jobs.disk import translated_disk
from jobs.errors import StoreUnavailable
from jobs.object_store.bucket import Bucket
from jobs.redis.client import translated
from jobs.settings import Settings

IDENTITY = "identity"
AGREED = (
    *("lease_s", "heartbeat_s", "worker_ttl_s", "max_attempts", "max_matrix_bytes", "store_bytes", "product_ttl_s"),
    *("room_timeout_s", "durability", "redis_replicas"),
)  # settings that workers and API must have alike


def identity_of(directory: Path) -> str:
    """The identity of a directory. The first process that asks creates it. Raises StoreUnavailable."""
    path = directory / IDENTITY
    with translated_disk():
        with suppress(FileExistsError):
            os.symlink(secrets.token_hex(16), path)  # made and named in one step
        return f"{os.readlink(path)}.{os.lstat(path).st_ino}"


def place_of(settings: Settings) -> str:
    """The store that these settings name. Raises StoreUnavailable."""
    if settings.store == "s3":
        return f"s3:{Bucket(settings).identity()}"
    return "redis" if settings.store == "redis" else f"file:{identity_of(settings.store_dir)}"


def kind_of(place: str) -> str:
    """`file`, `redis` or `s3`."""
    return place.partition(":")[0]


def agreed(settings: Settings) -> dict[str, int | float | str]:
    """The settings that a worker reports in its heartbeat."""
    return {name: getattr(settings, name) for name in AGREED}


def disagreement(theirs: Mapping[str, int | float | str], settings: Settings) -> str:
    """Describes the settings that differ from this process's; empty if none do."""
    others = [
        f"MATMUL_{name.upper()} is {theirs[name]} there and {mine} here"
        for name, mine in agreed(settings).items()
        if name in theirs and theirs[name] != mine
    ]
    return "; ".join(others)


class ServicePlace:
    """The store of the service on this Redis, as its API processes announce it. Safe to share between threads."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._key = f"{settings.key_prefix}store"
        self._announced: str | None = None
        self._mine: str | None = None

    @property
    def mine(self) -> str | None:
        """This process's own store, as last seen; None if it could not be used so far."""
        if self._settings.store == "s3" and self._mine is not None:
            return self._mine  # a bucket stays where it is
        with suppress(StoreUnavailable):  # whoever needs the store is told; it is no other one for that
            self._mine = place_of(self._settings)
        return self._mine

    @translated()
    def announced(self) -> str | None:
        """The store announced last; None if no API process has announced one. Raises StoreUnavailable."""
        found = cast(bytes | None, self._client.get(self._key))
        return None if found is None else found.decode()

    def tell(self) -> None:
        """For API processes: announces the store, and checks that no other process has announced a different one.
        Raises StoreUnavailable.
        """
        mine = self.mine
        if mine is None:
            return
        announced = self.announced()
        if announced is None or mine != self._announced:  # the first time, or its directory was made again
            with translated():
                self._client.set(self._key, mine)
            self._announced = mine
        elif announced != mine:
            raise StoreUnavailable(
                "Another API process of this service, started later, keeps matrices in another store; give all of them "
                "the same MATMUL_STORE and MATMUL_STORE_DIR."
            )

    def misplaced(self) -> str | None:
        """For workers: the reason why this worker can take no jobs; None if it can. Raises StoreUnavailable."""
        mine, announced = self.mine, self.announced()
        if mine is None or announced is None or mine == announced:
            return None
        if kind_of(mine) != kind_of(announced):
            kind = kind_of(announced)
            return f"It keeps matrices in another store than this service: set MATMUL_STORE={kind} for it."
        if kind_of(mine) == "s3":
            return (
                "It keeps matrices elsewhere than this service: give it the same MATMUL_S3_URL and MATMUL_S3_ENDPOINT."
            )
        return (
            f"Its matrix directory, {self._settings.store_dir}, is another one than this service's: give it the same "
            "MATMUL_STORE_DIR, or set MATMUL_STORE=redis everywhere if it is on another host."
        )
