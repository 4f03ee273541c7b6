"""Whatever happens to matrices of all sizes, in whatever order: each is what was stored, and free slots are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_state_machine

from jobs.errors import StoreFull
from jobs.formats.elements import Array
from jobs.matrices import file_store, indexed_store
from jobs.matrices.digest import part_count, part_digests
from jobs.matrices.interface import MatrixWriter
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import fresh_name, make_bench, numbers

SHAPES = [(270, 260), (270, 270), (512, 512), (3, 3)]  # two have slots of one length, one of another, one has none
STORE_BYTES, FREE_BYTES = 3 << 20, 1 << 20


class Stored(NamedTuple):
    name: str
    array: Array


class Begun(NamedTuple):
    writer: MatrixWriter
    stored: Stored


class Reading(NamedTuple):
    pieces: Iterator[memoryview]
    first: bytes
    stored: Stored


class Histories(RuleBasedStateMachine):
    """All arrays differ, so another's bytes show."""

    url = ""
    writers: Bundle[Begun] = Bundle("writers")
    kept: Bundle[Stored] = Bundle("kept")
    readers: Bundle[Reading] = Bundle("readers")
    views: Bundle[tuple[Array, Array]] = Bundle("views")

    def __init__(self) -> None:
        super().__init__()
        self.directory = TemporaryDirectory()
        bounds = {"store_bytes": STORE_BYTES, "store_free_bytes": FREE_BYTES}
        self.bench = make_bench("slots", self.url, f"{new_id('test')}:", Path(self.directory.name), **bounds)
        self.seed = 0

    def teardown(self) -> None:
        self.bench.client.close()
        self.directory.cleanup()

    def _new(self, shape: tuple[int, int]) -> Stored:
        self.seed += 1
        return Stored(fresh_name(), numbers(shape, seed=self.seed))

    # ---- writing ----
    @rule(target=writers, shape=st.sampled_from(SHAPES))
    def begin(self, shape: tuple[int, int]) -> Any:
        new = self._new(shape)
        try:
            writer = self.bench.store.create("float32", shape, owner="ada", ttl_s=600, name=new.name)
        except StoreFull:
            return multiple()
        return Begun(writer, new)

    @rule(target=kept, begun=consumes(writers))
    def commit(self, begun: Begun) -> Stored:
        raw = begun.stored.array.tobytes()
        begun.writer.write(raw[:1000])
        begun.writer.write(raw[1000:])
        begun.writer.commit()
        return begun.stored

    @rule(target=kept, shape=st.sampled_from(SHAPES))
    def store(self, shape: tuple[int, int]) -> Any:
        new = self._new(shape)
        try:
            self.bench.put(new.array, name=new.name)
        except StoreFull:
            return multiple()
        return new

    @rule(begun=consumes(writers))
    def abort(self, begun: Begun) -> None:
        begun.writer.write(begun.stored.array.tobytes()[:-1])
        begun.writer.abort()

    @rule(begun=consumes(writers))
    def die(self, begun: Begun) -> None:
        """Of a process that is killed nothing is left but its files, closed."""
        file: Any = begun.writer._file  # type: ignore[attr-defined]
        (file.file.close if hasattr(file, "file") else file._close)()

    @rule(target=kept, shape=st.sampled_from(SHAPES[:3]))
    def make_in_place(self, shape: tuple[int, int]) -> Any:
        new, store = self._new(shape), self.bench.store
        with store.place("float32", shape) as place:
            assert place is not None
            place.elements[:] = new.array
            parts = part_digests(memoryview(new.array.tobytes()), part_count(new.array.nbytes))
            try:
                writer = store.create("float32", shape, owner="ada", ttl_s=600, name=new.name, place=place)
            except StoreFull:
                return multiple()
            writer.fill(parts)
            writer.commit()
        return new

    @rule(stored=consumes(kept))
    def delete(self, stored: Stored) -> None:
        self.bench.store.delete(stored.name, owner="ada")

    @rule()
    def sweep(self) -> None:
        self.bench.store.sweep()

    # ---- reading ----
    @rule(target=readers, stored=kept)
    def begin_to_read(self, stored: Stored) -> Reading:
        pieces = self.bench.store.chunks(stored.name, stored.array.nbytes)
        return Reading(pieces, bytes(next(pieces)), stored)

    @rule(reading=consumes(readers))
    def read_on(self, reading: Reading) -> None:
        assert b"".join([reading.first, *reading.pieces]) == reading.stored.array.tobytes()

    @rule(target=views, stored=kept)
    def map(self, stored: Stored) -> tuple[Array, Array]:
        with self.bench.store.open(stored.name, "float32", stored.array.shape) as read:
            read.verify()
            return read.elements[1:], stored.array[1:]

    @rule(view=consumes(views))
    def unmap(self, view: tuple[Array, Array]) -> None:
        np.testing.assert_array_equal(*view)

    @rule(stored=kept)
    def read(self, stored: Stored) -> None:
        assert b"".join(self.bench.store.chunks(stored.name, stored.array.nbytes)) == stored.array.tobytes()

    # ---- always ----
    @invariant()
    def free_slots_are_bounded(self) -> None:
        free_bytes = sum(path.stat().st_size for path in self.bench.free())
        assert free_bytes <= FREE_BYTES
        assert self.bench.store.used_bytes() + free_bytes <= STORE_BYTES * 9 / 8


def test_histories(valkey: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_store, "SLOT_LEFTOVER_AGE_S", -1.0)
    monkeypatch.setattr(file_store, "LOOK_ROUND_S", 0.0)
    monkeypatch.setattr(indexed_store, "READ_PARTS", 4)  # pieces of 64 KiB
    monkeypatch.setattr(Histories, "url", valkey.url)
    run_state_machine(Histories, settings=settings(max_examples=60, stateful_step_count=50, deadline=None))
