"""System shared memory: regions that clients register, from which tensors are read and to which products are written.

A region is part of a file directly in /dev/shm. Files are never mapped: a client that cuts one short would end this
process. Registrations are in Redis, by owner, because a client's connections may reach several API processes.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from pydantic import Field

from jobs.base import Strict
from jobs.errors import Forbidden, InvalidRequest, NotFound
from jobs.redis.client import translated
from jobs.settings import Settings

DIRECTORY = "/dev/shm"  # noqa: S108 (where POSIX shared memory is on Linux)
CHUNK_BYTES = 1 << 20
MAX_REGIONS = 128  # of one owner
MAX_NAME_CHARACTERS = 255
OFF = "System shared memory is off on this server (MATMUL_SHARED_MEMORY_PREFIX); send tensors in the body."
_FILE_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,250}")


class Region(Strict):
    """What is registered under a name: bytes of the shared memory that `key` names."""

    key: str
    offset: int = Field(0, ge=0, lt=2**63)
    byte_size: int = Field(gt=0, lt=2**63)


@dataclass(frozen=True, slots=True)
class Window:
    """Some bytes of a region, in an open file. The file may be renamed, grow or shrink meanwhile."""

    name: str
    descriptor: int
    offset: int
    byte_size: int

    def chunks(self) -> Iterator[bytes]:
        """Yields all bytes. Raises InvalidRequest if the file no longer has them."""
        for done in range(0, self.byte_size, CHUNK_BYTES):
            size = min(CHUNK_BYTES, self.byte_size - done)
            data = os.pread(self.descriptor, size, self.offset + done)
            if len(data) != size:
                raise _shorter(self.name)
            yield data

    def write(self, data: memoryview, at: int) -> None:
        """Writes at offset `at` of the window. Raises InvalidRequest if the file became too short, or if its pages are
        only now asked for and there is no memory for them.
        """
        if os.fstat(self.descriptor).st_size < self.offset + at + len(data):
            raise _shorter(self.name)
        while data:
            try:
                written = os.pwrite(self.descriptor, data, self.offset + at)
            except OSError as error:
                told = f"The product could not be written to the region {self.name[:40]!a}: {error.strerror}."
                raise InvalidRequest(told, field="shared_memory_region") from None
            data, at = data[written:], at + written


class Regions:
    """The regions of all owners. For worker threads. Raises StoreUnavailable."""

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        self._client = client
        self._keys = f"{settings.key_prefix}regions:"
        self._prefix = settings.shared_memory_prefix
        self._kept_s = settings.matrix_ttl_s

    @property
    def is_on(self) -> bool:
        return bool(self._prefix)

    def check_on(self) -> None:
        """Raises Forbidden."""
        if not self.is_on:
            raise Forbidden(OFF)

    @translated()
    def register(self, owner: str, name: str, region: Region) -> None:
        """Registers a region; repeating it is not an error. Raises InvalidRequest, Forbidden."""
        if len(name) > MAX_NAME_CHARACTERS:
            raise InvalidRequest(f"A region's name may have {MAX_NAME_CHARACTERS} characters.", field="name")
        with self._opened(name, region, os.O_RDONLY):
            pass
        keys = self._keys + owner
        if self._client.hlen(keys) >= MAX_REGIONS and not self._client.hexists(keys, name):
            raise InvalidRequest(f"There are {MAX_REGIONS} regions registered; unregister some.")
        is_new = self._client.hsetnx(keys, name, region.model_dump_json())
        if not is_new and self.one(owner, name) != region:
            raise InvalidRequest(f"A region {name[:40]!a} is registered already; unregister it first.", field="name")
        self._client.expire(keys, self._kept_s)

    @translated()
    def unregister(self, owner: str, name: str | None) -> None:
        """Unregisters one region, or all. A request that has one open can still use it."""
        if name is None:
            self._client.delete(self._keys + owner)
        else:
            self._client.hdel(self._keys + owner, name)

    @translated()
    def all(self, owner: str) -> dict[str, Region]:
        """By name."""
        found: Any = self._client.hgetall(self._keys + owner)
        return {name.decode(): Region.model_validate_json(text) for name, text in found.items()}

    @translated()
    def one(self, owner: str, name: str) -> Region:
        """Raises NotFound."""
        text = self._client.hget(self._keys + owner, name)
        if text is None:
            raise NotFound(f"There is no region {name[:40]!a}; register it first.", field="shared_memory_region")
        return Region.model_validate_json(text)

    @contextmanager
    def window(self, owner: str, name: str, offset: int, byte_size: int, *, writes: bool) -> Iterator[Window]:
        """Bytes of a region, counted from its own offset. Raises InvalidRequest, Forbidden, NotFound."""
        region = self.one(owner, name)
        if offset + byte_size > region.byte_size:
            raise InvalidRequest(
                f"The region {name[:40]!a} has {region.byte_size} bytes; {byte_size} from {offset} on are more.",
                field="shared_memory_byte_size",
            )
        with self._opened(name, region, os.O_RDWR if writes else os.O_RDONLY) as descriptor:
            yield Window(name, descriptor, region.offset + offset, byte_size)

    @contextmanager
    def _opened(self, name: str, region: Region, mode: int) -> Iterator[int]:
        """Opens the region's file, which is checked each time."""
        descriptor = self._open(region.key, mode)
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                raise Forbidden(
                    f"{region.key[:40]!a} is no shared memory of the user who runs this server.", field="key"
                )
            if about.st_size < region.offset + region.byte_size:
                raise _shorter(name)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, key: str, mode: int) -> int:
        file_name = key.removeprefix("/")
        if not self._prefix or not f"/{file_name}".startswith(self._prefix) or not _FILE_NAME.fullmatch(file_name):
            raise Forbidden(
                f"A key of shared memory begins with {self._prefix} here, and names no directory.", field="key"
            )
        directory = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = mode | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # do not block on a pipe
            return os.open(file_name, flags, dir_fd=directory)
        except OSError:
            raise InvalidRequest(
                f"There is no shared memory {key[:40]!a} on the server's host that it may open.", field="key"
            ) from None
        finally:
            os.close(directory)


def _shorter(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"The shared memory of the region {name[:40]!a} is shorter than it was registered.", field="byte_size"
    )
