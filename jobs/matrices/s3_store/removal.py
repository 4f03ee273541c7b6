"""Removes objects from the bucket: those of deleted matrices, those that the index does not know, and what was sent to
an open upload's URL but is larger than its matrix.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from jobs.disk import file_clock_s
from jobs.errors import StoreUnavailable
from jobs.matrices.index import Elements, MatrixIndex
from jobs.matrices.indexed_store import UPLOAD, UPLOAD_LEASE_S
from jobs.matrices.s3_store.transfer import digests_key, elements_key, staged_key
from jobs.object_store.bucket import Bucket, Stored

OBJECT_LEFTOVER_AGE_S = UPLOAD_LEASE_S + 600.0
BUCKET_ROUND_S = 3600.0  # how often the bucket is listed for objects that no one knows
UPLOADS_ROUND_S = 30.0  # how often what was sent to URLs is listed
AWAY_S = 30.0  # for so long nothing is asked of a bucket that did not answer: who removes many must not wait for each
SLOW_S = 1.0  # nor of one whose answer took so long; a sweep removes objects for no longer either
RANDOM = "w_"  # what is random in a name begins so


class ObjectRemoval:
    """Nothing is raised where the bucket does not answer: what is left there goes with a later sweep."""

    def __init__(self, bucket: Bucket, index: MatrixIndex, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket, self._index, self._clock = bucket, index, clock
        self._matrices = Listing(bucket, (elements_key(""), digests_key("")), BUCKET_ROUND_S, clock)
        self._uploads = Listing(bucket, (staged_key(""),), UPLOADS_ROUND_S, clock)
        self._leftovers: deque[str] = deque()
        self._next_request = 0.0

    def remove(self, keys: Sequence[str]) -> bool:
        """Whether they are gone."""
        if (began := self._clock()) < self._next_request:
            return False
        try:
            self._bucket.delete(keys)
        except StoreUnavailable:
            self._is_away()
            return False
        if (now := self._clock()) - began > SLOW_S:
            self._next_request = now + AWAY_S
        return True

    def _is_away(self) -> None:
        """It may be for hours, after which what was listed says nothing."""
        self._next_request = self._clock() + AWAY_S
        self._leftovers.clear()
        self._matrices.restart()
        self._uploads.restart()

    def sweep(self) -> int:
        """Lists some of the bucket, a page at a time, and removes what should not be there; returns how many. Raises
        StoreUnavailable if Redis does not answer.
        """
        if not self._leftovers:
            self._leftovers.extend(self._found())
        until, removed = self._clock() + SLOW_S, 0
        while self._leftovers and self._clock() < until and self.remove([self._leftovers[0]]):
            self._leftovers.popleft()
            removed += 1
        return removed

    def _found(self) -> list[str]:
        """The keys to remove of the next page. A matrix is claimed after its objects are written, so only old ones are
        looked at; an upload is claimed before its URL is known. Setting the clock forward in between makes none look
        old: not of this host alone, nor together with the store's, so the store's clock would not do either.
        """
        if self._clock() < self._next_request:
            return []
        try:
            page = self._uploads.page() or self._matrices.page()
        except StoreUnavailable:
            self._is_away()
            return []
        old_s = file_clock_s() - OBJECT_LEFTOVER_AGE_S
        suspects = [each for each in page if _is_staged(each.key) or each.modified_at < old_s]
        claims = self._index.all_elements([_claimed_as(each.key) for each in suspects]) if suspects else []
        return [each.key for each, claim in zip(suspects, claims, strict=True) if _is_superfluous(each, claim)]


class Listing:
    """Lists the objects under some prefixes, a page at a time, once in `every_s`."""

    def __init__(self, bucket: Bucket, prefixes: Sequence[str], every_s: float, clock: Callable[[], float]) -> None:
        self._bucket, self._prefixes, self._every_s, self._clock = bucket, prefixes, every_s, clock
        self._pages: Iterator[Sequence[Stored]] | None = None
        self._next_round = 0.0

    def page(self) -> Sequence[Stored]:
        """The next objects of a round; empty between two rounds. Raises StoreUnavailable."""
        now = self._clock()
        if self._pages is None and now < self._next_round:
            return ()
        self._pages = self._pages or self._listed()
        page = next(self._pages, None)
        if page is None:
            self._pages, self._next_round = None, now + self._every_s
        return page or ()

    def restart(self) -> None:
        """Begins a new round."""
        self._pages, self._next_round = None, 0.0

    def _listed(self) -> Iterator[Sequence[Stored]]:
        for prefix in self._prefixes:
            yield from self._bucket.list(prefix)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _is_staged(key: str) -> bool:
    return key.startswith(staged_key(""))


def _claimed_as(key: str) -> str:
    """The id whose claim keeps an object: that of the matrix, or of the open upload that it was sent to."""
    matrix, _, written = _name(key).partition(".")
    return UPLOAD + written.removeprefix(RANDOM) if _is_staged(key) else matrix


def _is_superfluous(found: Stored, claim: Elements | None) -> bool:
    """Whether the object is not the claimed one, or is more than was claimed."""
    if claim is None or claim.data != _name(found.key):
        return True
    return _is_staged(found.key) and found.bytes > claim.bytes
