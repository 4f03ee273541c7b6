"""Hosts that share a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jobs.matrices.s3_store.store import ObjectMatrixStore
from jobs.redis.embedded import EmbeddedServer
from tests.support.objects import ObjectServer
from tests.support.stores import StoreBench, make_bench

DIGESTS_BYTES = 4096  # at most, of what is put here


class Hosts:
    """Hosts with directories of their own and one bucket, on one Redis."""

    def __init__(self, valkey: EmbeddedServer, objects: ObjectServer, prefix: str, directory: Path) -> None:
        self._valkey, self._objects, self._prefix, self._directory = valkey, objects, prefix, directory
        self.made: list[StoreBench] = []

    def __call__(self, name: str = "first", **settings: object) -> StoreBench:
        """Another process's view of a host's store."""
        place = self._directory / name
        place.mkdir(exist_ok=True)
        own = self._objects.settings(self._prefix) | settings
        self.made.append(make_bench("objects", self._valkey.url, self._prefix, place, **own))
        return self.made[-1]


def objects_of(bench: StoreBench) -> ObjectMatrixStore:
    assert isinstance(bench.store, ObjectMatrixStore)
    return bench.store


@contextmanager
def received(bench: StoreBench, want: int) -> Iterator[None]:
    """That so many bytes of elements come from the bucket meanwhile, and their digests."""
    bucket = objects_of(bench).bucket
    before = bucket.received_bytes
    yield
    came = bucket.received_bytes - before
    assert want <= came <= (want and want + DIGESTS_BYTES)
