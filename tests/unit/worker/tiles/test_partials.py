"""A product that grows in the store: found again once its writer is dead, by no two at once; swept if no one comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jobs.matrices import file_store
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import StoreBench, fresh_name, make_bench

SHAPE = (300, 310)  # large enough for a slot
MARK = 2**64 - 3


@pytest.fixture(params=["file", "slots"])
def bench(request: pytest.FixtureRequest, valkey: EmbeddedServer, tmp_path: Path) -> Iterator[StoreBench]:
    bench = make_bench(request.param, valkey.url, f"{new_id('test')}:", tmp_path)
    yield bench
    bench.client.close()


def name() -> str:
    return f"tiles_{new_id('job').removeprefix('job_')}"


def test_what_is_kept_is_found_again_and_stored(bench: StoreBench) -> None:
    named = name()
    with bench.store.partial(named, "float32", SHAPE) as first:
        assert first is not None and not first.is_found
        first.place.elements[...] = 7
        first.mark = MARK
        first.is_kept = True
        del first
    with bench.store.partial(named, "float32", SHAPE) as again:
        assert again is not None and again.is_found and again.mark == MARK
        np.testing.assert_array_equal(again.place.elements, np.full(SHAPE, 7, np.float32))
        stored = fresh_name()
        place = again.place
        with bench.store.create("float32", SHAPE, owner="ada", ttl_s=60, name=stored, place=place) as writer:
            writer.write(place.elements.tobytes())
            writer.commit()
    with bench.store.partial(named, "float32", SHAPE) as third:
        assert third is not None and not third.is_found
    np.testing.assert_array_equal(bench.store.load(stored, "float32", SHAPE), np.full(SHAPE, 7, np.float32))


def test_what_is_not_kept_is_gone(bench: StoreBench) -> None:
    named = name()
    with bench.store.partial(named, "float32", SHAPE):
        pass
    with bench.store.partial(named, "float32", SHAPE) as again:
        assert again is not None and not again.is_found


def test_no_two_have_it_at_once(bench: StoreBench) -> None:
    named = name()
    with (
        bench.store.partial(named, "float32", SHAPE) as first,
        bench.store.partial(named, "float32", SHAPE) as second,
    ):
        assert first is not None and second is not None and not second.is_found
        first.place.elements[...] = 1
        second.place.elements[...] = 2
        assert (first.place.elements == 1).all()


def test_one_of_another_size_is_not_taken(bench: StoreBench) -> None:
    named = name()
    with bench.store.partial(named, "float32", SHAPE) as first:
        assert first is not None
        first.is_kept = True
    with bench.store.partial(named, "float64", SHAPE) as other:
        assert other is not None and not other.is_found


def test_a_small_matrix_has_none(bench: StoreBench) -> None:
    with bench.store.partial(name(), "float32", (9, 9)) as partial:
        assert partial is None


def test_an_abandoned_partial_is_swept(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    named = name()
    with bench.store.partial(named, "float32", SHAPE) as partial:
        assert partial is not None
        partial.is_kept = True
    path = bench.settings.store_dir / named
    assert path.exists()
    assert bench.store.sweep() == 0 and path.exists()
    old = time.time() - 2 * file_store.LEFTOVER_AGE_S
    os.utime(path, (old, old))
    monkeypatch.setattr(bench.store, "_next_reading", 0.0)
    assert bench.store.sweep() == 1 and not path.exists()
