"""A bucket of an S3 object store. Its errors are the service's own (`translated.py`).

Credentials come from the standard variables (`AWS_ACCESS_KEY_ID`, …), from the instance's or the pod's role, or from a
file in the format of `~/.aws/credentials`.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from jobs.errors import InvalidSettings, MatrixNotFound, StoreUnavailable
from jobs.object_store.credentials import credentials_of
from jobs.object_store.ranges import NotServed, OtherSize, RangeReader
from jobs.object_store.signing import bind_to_size
from jobs.object_store.translated import DOWN, NO_BUCKET, translated
from jobs.settings import Settings

if TYPE_CHECKING:
    from obstore.store import S3Store

PART_BYTES = 16 << 20  # of a multipart upload, at least
MAX_PARTS = 9000  # of the 10,000 that S3 takes
PARTS_AT_ONCE = 8
COPIED_BYTES_PER_S = 50e6  # by a slow store
Buffer = bytes | bytearray | memoryview


class Stored(NamedTuple):
    """An object in a listing."""

    key: str
    bytes: int
    modified_at: float  # seconds since the epoch


class Bucket:
    """Safe to share between threads. All methods raise StoreUnavailable, and MatrixNotFound if the key does not
    exist.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidSettings."""
        url = urlsplit(settings.s3_url or "")
        if url.scheme != "s3" or not url.hostname:
            raise InvalidSettings("MATMUL_S3_URL must name a bucket, as in s3://bucket or s3://bucket/prefix.")
        if _obstore() is None:
            raise InvalidSettings("MATMUL_STORE=s3 needs the package obstore: pip install 'matmul-service[s3]'.")
        self._settings = settings
        self._name, self._prefix = url.hostname, url.path.strip("/")
        self._reader = RangeReader(settings.s3_timeout_s, self._request_s)
        self._counted = threading.Lock()
        self.received_bytes = 0
        self.sent_bytes = 0

    # ---- connections ----
    @property
    def _request_s(self) -> float:
        """The longest that a request may take."""
        return max(30.0, self._settings.s3_timeout_s)

    def _store(self, endpoint: str | None, work_s: float = 0.0) -> S3Store:
        """`work_s`: how much longer an answer may take, for what the store does before it."""
        from obstore.store import S3Store

        timeout_s = self._settings.s3_timeout_s
        options: dict[str, Any] = credentials_of(self._settings.s3_credentials_file)
        if endpoint is not None:
            options["endpoint"] = endpoint
        if self._settings.s3_region is not None:
            options["region"] = self._settings.s3_region
        return S3Store(
            self._name,
            prefix=self._prefix or None,
            client_options={
                "allow_http": endpoint is not None and endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=timeout_s / 2),
                "read_timeout": timedelta(seconds=timeout_s + work_s),
                "timeout": timedelta(seconds=self._request_s + work_s),
            },
            retry_config={
                "max_retries": 3,
                "retry_timeout": timedelta(seconds=timeout_s),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=1),
                    "base": 2,
                },
            },
            **options,
        )

    @cached_property
    def _inside(self) -> S3Store:
        return self._store(self._settings.s3_endpoint)

    @cached_property
    def _outside(self) -> S3Store:
        """The bucket under the address that callers use, for signing URLs."""
        return self._store(self._settings.s3_public_endpoint or self._settings.s3_endpoint)

    # ---- objects ----
    def put(self, key: str, data: Buffer, *, is_new: bool = False) -> bool:
        """Stores an object atomically. With `is_new` an existing object is kept. Returns whether this one was
        stored.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with translated(not_found=StoreUnavailable(NO_BUCKET, resource="objects")):
            try:
                obstore.put(self._inside, key, bytes(data), use_multipart=False, mode="create" if is_new else None)
            except AlreadyExistsError:
                return False
        self._count(sent=len(data))
        return True

    def put_pieces(self, key: str, pieces: Iterable[Buffer], size: int) -> None:
        """Stores a new object in parts, several in parallel, as the pieces arrive. If the iterator raises, nothing is
        stored.
        """
        import obstore

        part_bytes = max(PART_BYTES, -(-size // MAX_PARTS))
        try:
            with translated():
                obstore.put(
                    self._inside,
                    key,
                    pieces,
                    use_multipart=True,
                    chunk_size=part_bytes,
                    max_concurrency=PARTS_AT_ONCE,
                )
        except MatrixNotFound:  # the upload: its end was asked for again, as the answer did not come
            if not self._has(key, size):
                raise StoreUnavailable(DOWN, resource="objects") from None
        self._count(sent=size)

    def _has(self, key: str, size: int) -> bool:
        try:
            return self.size(key) == size
        except MatrixNotFound:
            return False

    def get(self, key: str, start: int, stop: int) -> memoryview:
        """Exactly these bytes. Raises MatrixNotFound also if the object has fewer."""
        import obstore

        with translated():
            piece = memoryview(obstore.get_range(self._inside, key, start=start, end=stop))
        self._count(received=piece.nbytes)
        if piece.nbytes != stop - start:
            raise MatrixNotFound
        return piece

    def read_into(self, key: str, start: int, buffer: memoryview, size: int) -> Iterator[int]:
        """Fills the buffer with the object's bytes from `start` on; yields the growing number of bytes received. Raises
        MatrixNotFound also if the object does not have `size` bytes.
        """
        got = 0
        try:
            url = _signed(self._inside, "GET", key, self._request_s)
            for got in self._reader.pieces(url, start, buffer, size):
                yield got
        except TimeoutError:
            raise StoreUnavailable(DOWN, resource="objects") from None
        except OtherSize:
            raise MatrixNotFound from None
        except (NotServed, StoreUnavailable):
            for total in self._streamed_into(key, start, buffer, size, got):
                got = total
                yield got
        self._count(received=got)

    def _streamed_into(self, key: str, start: int, buffer: memoryview, size: int, got: int) -> Iterator[int]:
        """The same with obstore, continuing after the `got` bytes already received."""
        import obstore

        with translated():
            found = obstore.get(self._inside, key, options={"range": (start + got, start + buffer.nbytes)})
            if found.meta["size"] != size:
                raise MatrixNotFound
            for piece in found.stream(min_chunk_size=1):
                view = memoryview(piece)
                buffer[got : got + view.nbytes] = view
                got += view.nbytes
                yield got
        if got != buffer.nbytes:
            raise MatrixNotFound

    def identity(self) -> str:
        """The random name of this key prefix; the first process to ask creates it."""
        if not self.put("identity", secrets.token_hex(16).encode(), is_new=True):
            return bytes(self.get("identity", 0, 32)).decode()
        return self.identity()

    def size(self, key: str) -> int:
        return self._head(key)[0]

    def is_same(self, key: str, other: str) -> bool:
        """Whether both objects exist and are equal according to the store's ETags."""
        try:
            return self._head(key) == self._head(other)
        except MatrixNotFound:
            return False

    def _head(self, key: str) -> tuple[int, str | None]:
        import obstore

        with translated():
            found = obstore.head(self._inside, key)
        return found["size"], found["e_tag"]

    def copy(self, key: str, to: str, size: int) -> None:
        """Copies an object of `size` bytes. Some stores say nothing until they are done."""
        import obstore

        with translated():
            obstore.copy(self._store(self._settings.s3_endpoint, size / COPIED_BYTES_PER_S), key, to)

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes these keys; missing ones are ignored."""
        import obstore

        for key in keys:
            with translated():
                try:
                    obstore.delete(self._inside, key)
                except FileNotFoundError:
                    continue

    def list(self, prefix: str) -> Iterator[Sequence[Stored]]:
        """Lists objects, one page at a time."""
        import obstore

        with translated(not_found=StoreUnavailable(NO_BUCKET, resource="objects")):
            pages = obstore.list(self._inside, prefix, chunk_size=1000)
            for page in pages:
                yield [Stored(each["path"], each["size"], each["last_modified"].timestamp()) for each in page]

    def sign_get(self, key: str, for_s: float) -> str:
        """A signed URL with which anyone can read this key for `for_s` seconds. Makes no request."""
        return _signed(self._outside, "GET", key, for_s)

    def sign_put(self, key: str, size: int, for_s: float) -> str:
        """A signed URL with which anyone can write this key for `for_s` seconds: exactly `size` bytes, or any number if
        the credentials are those of a role, whose secret obstore keeps to itself. Makes no request.
        """
        url = _signed(self._outside, "PUT", key, for_s)
        secret = self._outside.config.get("secret_access_key") or os.environ.get("AWS_SECRET_ACCESS_KEY")
        return url if secret is None else bind_to_size(url, "PUT", secret, size) or url

    def _count(self, *, received: int = 0, sent: int = 0) -> None:
        with self._counted:
            self.received_bytes += received
            self.sent_bytes += sent


def _signed(store: S3Store, method: Literal["GET", "PUT"], key: str, for_s: float) -> str:
    import obstore

    with translated():
        return obstore.sign(store, method, key, timedelta(seconds=for_s))


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        return None
    return obstore
