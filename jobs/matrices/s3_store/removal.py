"""Removes objects from the bucket: those of deleted matrices, and those that the index does not know."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from jobs.errors import StoreUnavailable
from jobs.matrices.index import MatrixIndex
from jobs.matrices.indexed_store import UPLOAD, UPLOAD_LEASE_S
from jobs.matrices.s3_store.transfer import digests_key, elements_key, staged_key
from jobs.object_store.bucket import Bucket, Stored

OBJECT_LEFTOVER_AGE_S = UPLOAD_LEASE_S + 600.0
BUCKET_ROUND_S = 3600.0  # how often the bucket is listed for objects that no one knows
AWAY_S = 30.0  # for so long nothing is asked of a bucket that did not answer: who removes many must not wait for each
RANDOM = "w_"  # what is random in a name begins so


class ObjectRemoval:
    """Nothing is raised where the bucket does not answer: what is left there goes with a later sweep."""

    def __init__(self, bucket: Bucket, index: MatrixIndex) -> None:
        self._bucket, self._index = bucket, index
        self._listing: Iterator[list[Stored]] | None = None
        self._next_listing = 0.0
        self._next_request = 0.0

    def remove(self, keys: Sequence[str]) -> bool:
        """Whether they are gone."""
        if time.monotonic() < self._next_request:
            return False
        try:
            self._bucket.delete(keys)
        except StoreUnavailable:
            self._is_away()
            return False
        return True

    def _is_away(self) -> None:
        self._next_request = time.monotonic() + AWAY_S

    def sweep(self) -> int:
        """Lists the bucket every BUCKET_ROUND_S, a page at a time, and removes old objects that the index does not
        know; returns how many. Raises StoreUnavailable if Redis does not answer.
        """
        old = [each.key for each in self._page() if time.time() - each.modified_at > OBJECT_LEFTOVER_AGE_S]
        kept = self._index.data_names(list(map(_claimed_as, old))) if old else []
        leftovers = [key for key, data in zip(old, kept, strict=True) if _name(key) != data]
        return len(leftovers) if leftovers and self.remove(leftovers) else 0

    def _page(self) -> list[Stored]:
        """The next objects of a round; empty between two."""
        now = time.monotonic()
        if now < self._next_request or (self._listing is None and now < self._next_listing):
            return []
        self._listing = self._listing or self._pages()
        try:
            page = next(self._listing, None)
        except StoreUnavailable:
            self._is_away()
            self._listing = None
            return []
        if page is None:
            self._listing, self._next_listing = None, now + BUCKET_ROUND_S
        return page or []

    def _pages(self) -> Iterator[list[Stored]]:
        for prefix in (elements_key(""), digests_key(""), staged_key("")):
            for page in self._bucket.list(prefix):
                yield list(page)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _claimed_as(key: str) -> str:
    """The id whose claim keeps an object: that of the matrix, or of the open upload that it was sent to."""
    matrix, _, written = _name(key).partition(".")
    return UPLOAD + written.removeprefix(RANDOM) if key.startswith(staged_key("")) else matrix
