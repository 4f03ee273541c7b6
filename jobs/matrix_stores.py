"""The matrix store that the settings ask for."""

from __future__ import annotations

import redis

from jobs.matrices import MatrixStore
from jobs.matrix_files import FileMatrixStore
from jobs.matrix_index import Bounds, MatrixIndex
from jobs.matrix_redis import CHUNK_BYTES, RedisMatrixStore
from jobs.redis_client import connect
from jobs.settings import Settings


def make_matrix_store(settings: Settings, client: redis.Redis | None = None) -> MatrixStore:
    """`client` is shared where there is one already. Raises InvalidSettings for a directory that is not ours."""
    client = client or connect(settings)
    bounds = Bounds(settings.store_bytes, settings.store_bytes_per_key)
    prefix, most = settings.key_prefix, settings.max_matrix_bytes
    if settings.store == "redis":
        index = MatrixIndex(client, prefix, bounds, chunk_bytes=CHUNK_BYTES)
        return RedisMatrixStore(client, prefix, index, max_matrix_bytes=most)
    index = MatrixIndex(client, prefix, bounds)
    return FileMatrixStore(settings.store_dir, index, max_matrix_bytes=most)
