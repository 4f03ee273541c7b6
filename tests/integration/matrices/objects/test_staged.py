"""Uploads by URL that are completed twice at once, or sent to again meanwhile."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from jobs.errors import DigestMismatch, InvalidMatrix, MatrixNotFound
from jobs.formats.elements import Array
from jobs.matrices.interface import content_hasher
from jobs.matrices.s3_store.staged import Opened, complete_upload, open_upload
from jobs.matrices.s3_store.store import ObjectMatrixStore
from tests.integration.matrices.objects.hosts import Hosts, objects_of
from tests.support.stores import numbers


def sent(store: ObjectMatrixStore, array: Array) -> tuple[str, Opened]:
    """Its sha256, and an upload to whose URL it was sent."""
    hasher = content_hasher("float32", array.shape)
    hasher.update(array.tobytes())
    upload = open_upload(store, hasher.hexdigest(), "float32", array.shape, owner="eve", url_ttl_s=60.0)
    httpx.put(upload.url, content=array.tobytes()).raise_for_status()
    return hasher.hexdigest(), upload


def test_other_bytes_reach_nothing_that_was_verified(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent once the matrix is there, while another completion, which began before, has not copied yet."""
    array, store = numbers((300, 200)), objects_of(host("first"))
    sha256, upload = sent(store, array)
    copy = store.bucket.copy

    def late(key: str, to: str, size: int) -> None:
        monkeypatch.undo()
        complete_upload(store, upload.id, owner="eve", ttl_s=60)
        httpx.put(upload.url, content=bytes(array.nbytes)).raise_for_status()
        copy(key, to, size)

    monkeypatch.setattr(store.bucket, "copy", late)
    with pytest.raises(DigestMismatch):
        complete_upload(store, upload.id, owner="eve", ttl_s=60)
    info = store.info(sha256, owner="eve")
    assert httpx.get(store.url(info.id, 60.0)).content == array.tobytes()
    np.testing.assert_array_equal(host("second").get(info), array)
    assert len(host("second").kept()) == 1 and store.used_bytes() == array.nbytes


def test_more_bytes_that_come_behind_the_first_look_are_seen(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin as announced, so their sha256, read to the announced end, is right."""
    array, store = numbers((300, 200)), objects_of(host("first"))
    sha256, upload = sent(store, array)
    copy = store.bucket.copy

    def late(key: str, to: str, size: int) -> None:
        httpx.put(upload.url, content=array.tobytes() + b"more").raise_for_status()
        copy(key, to, size)

    monkeypatch.setattr(store.bucket, "copy", late)
    with pytest.raises(InvalidMatrix, match=f"{array.nbytes + 4} bytes were sent"):
        complete_upload(store, upload.id, owner="eve", ttl_s=60)
    with pytest.raises(MatrixNotFound):
        store.info(sha256, owner="eve")
    assert host("second").kept() == [] and store.used_bytes() == 0
