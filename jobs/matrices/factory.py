"""Creates the matrix store that the settings ask for."""

from __future__ import annotations

import redis

from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.index import Bounds, MatrixIndex
from jobs.matrices.interface import MatrixStore
from jobs.matrices.redis_store import CHUNK_BYTES, RedisMatrixStore
from jobs.matrices.s3_store.store import ObjectMatrixStore
from jobs.object_store.bucket import Bucket
from jobs.redis.client import connect
from jobs.settings import GIB, Settings

KEYS_TO_FILL = 4  # at least this many keys must use their whole share before a large store is full
MIN_KEY_BYTES = GIB


def bounds_of(settings: Settings) -> Bounds:
    """The byte limits for matrices, in the store and in job records together. A server without keys has one owner, who
    may use all of it.
    """
    if settings.store_bytes_per_key is not None:
        return Bounds(settings.store_bytes, settings.store_bytes_per_key)
    of_key = max(settings.store_bytes // KEYS_TO_FILL, MIN_KEY_BYTES)
    return Bounds(settings.store_bytes, of_key, anonymous_bytes=settings.store_bytes)


def make_matrix_store(
    settings: Settings, client: redis.Redis | None = None, *, keeps_maps: bool = False
) -> MatrixStore:
    """Creates the store. An existing `client` is shared. `keeps_maps` is for workers: slots stay mapped. Raises
    InvalidSettings for a directory that belongs to another user.
    """
    client = client or connect(settings)
    bounds = bounds_of(settings)
    prefix, max_bytes = settings.key_prefix, settings.max_matrix_bytes
    if settings.store == "redis":
        index = MatrixIndex(client, prefix, bounds, chunk_bytes=CHUNK_BYTES)
        return RedisMatrixStore(client, prefix, index, max_matrix_bytes=max_bytes)
    index = MatrixIndex(client, prefix, bounds)
    if settings.store == "s3":
        return ObjectMatrixStore(
            Bucket(settings),
            settings.store_dir,
            index,
            max_matrix_bytes=max_bytes,
            copies_bytes=settings.store_copies_bytes,
            free_bytes=settings.store_free_bytes,
            keeps_maps=keeps_maps,
        )
    return FileMatrixStore(
        settings.store_dir,
        index,
        max_matrix_bytes=max_bytes,
        free_bytes=settings.store_free_bytes,
        keeps_maps=keeps_maps,
        syncs=settings.durability == "disk",
    )
