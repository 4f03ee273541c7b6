"""What leaves the bucket, and what a sweep does not take for a leftover."""

from __future__ import annotations

import time
from collections.abc import Sequence

import httpx
import pytest

from jobs.errors import StoreUnavailable
from jobs.matrices.interface import content_hasher
from jobs.matrices.s3_store import removal as object_removal
from jobs.matrices.s3_store.removal import ObjectRemoval
from jobs.matrices.s3_store.staged import UploadNotSent, complete_upload, open_upload
from jobs.matrices.s3_store.transfer import digests_key, elements_key
from jobs.object_store.bucket import Stored
from tests.integration.matrices.objects.hosts import Hosts, objects_of
from tests.support.stores import numbers
from tools.harness.api import until


def test_the_sweep_finds_objects_that_no_one_knows(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = host("first")
    info = bench.put(numbers((9, 9)))
    bucket = objects_of(bench).bucket
    for key_of in (elements_key, digests_key):
        bucket.put(key_of("c_" + "1" * 32 + "_1"), b"x" * 8)
    assert bench.store.sweep() == 0 and len(bench.kept()) == 2
    monkeypatch.setattr(object_removal, "OBJECT_LEFTOVER_AGE_S", -60.0)
    fresh = host("first")
    assert sum(fresh.store.sweep() for _ in range(3)) == 2
    assert [name.partition(".")[0] for name in bench.kept()] == [info.id]


def test_no_object_looks_old_because_the_clock_is_set_forward(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a matrix that is about to be claimed."""
    bench, now = host("first"), time.time
    objects_of(bench).bucket.put(elements_key("c_" + "1" * 32 + "_1"), b"x" * 8)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now() + 2 * 86_400)
        assert host("first").store.sweep() == 0 and len(bench.kept()) == 1
    monkeypatch.setattr(object_removal, "OBJECT_LEFTOVER_AGE_S", -60.0)
    assert sum(host("first").store.sweep() for _ in range(3)) == 1 and not bench.kept()


def test_the_sweep_does_not_wait_for_a_bucket_that_is_away(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of dead workers wait for its end. What is left in the bucket goes once that is back."""
    bench = host("first")
    for seed in range(5):
        bench.put(numbers((9, 9), seed=seed), ttl_s=0.001)
    tries: list[str] = []

    def away(*_: object) -> list[Stored]:
        tries.append("a request")
        raise StoreUnavailable(resource="objects")

    with monkeypatch.context() as patch:
        patch.setattr(objects_of(bench).bucket, "delete", away)
        patch.setattr(objects_of(bench).bucket, "list", away)
        until(lambda: bench.store.sweep() + bench.store.used_bytes() == 0, timeout_s=30)
    assert 1 <= len(tries) <= 2 and len(bench.kept()) == 5
    monkeypatch.setattr(object_removal, "AWAY_S", 0.0)
    monkeypatch.setattr(object_removal, "OBJECT_LEFTOVER_AGE_S", -60.0)
    until(lambda: bool(host("first").store.sweep() or not bench.kept()), timeout_s=30)


@pytest.mark.parametrize(("delete_s", "want"), [(0.4, [3, 2]), (1.5, [1, 0])])
def test_a_sweep_ends_soon_however_much_there_is_to_remove(
    host: Hosts, monkeypatch: pytest.MonkeyPatch, delete_s: float, want: list[int]
) -> None:
    """Jobs of dead workers wait for its end. One request that takes long is the last for a while."""
    bench = host("first")
    bucket, now_s = objects_of(bench).bucket, 0.0
    delete = bucket.delete
    for number in range(5):
        bucket.put(elements_key(f"c_{number:032}_1"), b"x" * 8)

    def slow(keys: Sequence[str]) -> None:
        nonlocal now_s
        now_s += delete_s
        delete(keys)

    monkeypatch.setattr(object_removal, "OBJECT_LEFTOVER_AGE_S", -60.0)
    monkeypatch.setattr(bucket, "delete", slow)
    removal = ObjectRemoval(bucket, objects_of(bench).index, clock=lambda: now_s)
    assert [removal.sweep() for _ in range(2)] == want
    now_s += object_removal.AWAY_S
    while removal.sweep():
        now_s += object_removal.AWAY_S
    assert bench.kept() == []


def test_a_bucket_that_is_gone_does_not_end_the_sweep(host: Hosts) -> None:
    """Records expire after it. NoSuchBucket is the 404 of a listing."""
    bench = host("first", s3_url="s3://another-bucket/one")
    assert bench.store.sweep() == 0


@pytest.mark.parametrize("is_open", [True, False])
def test_what_is_too_large_for_its_upload_goes_with_the_next_sweep(host: Hosts, is_open: bool) -> None:
    """moto takes it, as it looks at no signature; so may a store with whose role's credentials no size was signed."""
    array, bench = numbers((9, 9)), objects_of(host("first"))
    hasher = content_hasher("float32", array.shape)
    hasher.update(array.tobytes())
    small, large = (
        open_upload(bench, hasher.hexdigest(), "float32", array.shape, owner="ada", url_ttl_s=86400.0) for _ in range(2)
    )
    httpx.put(small.url, content=array.tobytes()).raise_for_status()
    httpx.put(large.url, content=array.tobytes() + b"more").raise_for_status()
    if not is_open:
        bench.index.release(large.id, "ada")
    assert objects_of(host("first")).removal.sweep() == 1
    if is_open:
        with pytest.raises(UploadNotSent):
            complete_upload(bench, large.id, owner="ada", ttl_s=60)
    assert complete_upload(bench, small.id, owner="ada", ttl_s=60).id == hasher.hexdigest()


def test_the_sweep_leaves_what_was_sent_to_an_open_upload(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago: a URL may be valid for days."""
    array, bench = numbers((9, 9)), objects_of(host("first"))
    hasher = content_hasher("float32", array.shape)
    hasher.update(array.tobytes())
    first, second = (
        open_upload(bench, hasher.hexdigest(), "float32", array.shape, owner="ada", url_ttl_s=86400.0) for _ in range(2)
    )
    for upload in (first, second):
        httpx.put(upload.url, content=array.tobytes()).raise_for_status()
    bench.index.release(second.id, "ada")
    monkeypatch.setattr(object_removal, "OBJECT_LEFTOVER_AGE_S", -60.0)
    fresh = host("first")
    assert sum(fresh.store.sweep() for _ in range(3)) == 1, "what was sent to the one that was given up"
    assert complete_upload(bench, first.id, owner="ada", ttl_s=60).id == hasher.hexdigest()
