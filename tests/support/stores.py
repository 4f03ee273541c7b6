"""Matrix stores for tests, of all kinds, and a look behind their books."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import redis
from pydantic import SecretStr

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo, MatrixStore
from jobs.matrices.s3_store.store import ObjectMatrixStore
from jobs.matrices.s3_store.transfer import digests_key, elements_key
from jobs.matrices.slots import FREE
from jobs.models import new_id
from jobs.redis.client import connect
from jobs.settings import Settings
from kernels.model.numerics import DTYPES, DTypeName
from tools.harness.elements import dtype_name

# plain files; files that are used again where they are large; chunks; objects in a bucket
StoreKind = Literal["file", "slots", "redis", "objects"]
FREE_BYTES = 64 << 20  # of free slots
LARGE = (1500, 1000)  # of float32: a chunk and a half of the redis store


def move_away(directory: Path) -> None:
    """In one step, as others use it: `shutil.rmtree` fails where a file is made meanwhile, such as its identity."""
    directory.rename(directory.with_name(new_id("gone")))


def replace_with_file(directory: Path) -> None:
    """So that it cannot be made again."""
    while not directory.is_file():
        move_away(directory)
        with suppress(FileExistsError):  # it has been made again
            directory.open("x").close()


@dataclass
class StoreBench:
    """A store under test. Two of the same prefix and directory are two processes' views of one."""

    kind: StoreKind
    settings: Settings
    client: redis.Redis
    store: MatrixStore

    def put(self, array: Array, *, owner: str = "ada", ttl_s: float = 60.0, name: str | None = None) -> MatrixInfo:
        """Stores it, under its contents' id or a name."""
        dtype = dtype_name(array)
        with self.store.create(dtype, array.shape, owner=owner, ttl_s=ttl_s, name=name) as writer:
            writer.write(array.tobytes())
            return writer.commit()

    def get(self, info: MatrixInfo) -> Array:
        with self.store.open(info.id, info.dtype, info.shape) as stored:
            stored.verify()
            return stored.elements.copy()

    def kept(self) -> list[str]:
        """The names of all elements there are: files, keys of chunks, or objects."""
        if isinstance(self.store, ObjectMatrixStore):
            pages = list(self.store.bucket.list(elements_key("")))
            return sorted(each.key.removeprefix(elements_key("")) for page in pages for each in page)
        if self.kind != "redis":
            return sorted(path.name for path in self.settings.store_dir.iterdir() if path.is_file())
        keys = cast(list[bytes], self.client.keys(f"{self.settings.key_prefix}chunk:*"))
        return sorted(key.decode() for key in keys)

    def free(self) -> list[Path]:
        """The free slots."""
        return sorted((self.settings.store_dir / FREE).glob("*"))

    def raw(self, name: str) -> bytes:
        """What lies under one of the names of `kept`."""
        if isinstance(self.store, ObjectMatrixStore):
            keys = elements_key(name), digests_key(name)
            return b"".join(bytes(self.store.bucket.get(key, 0, self.store.bucket.size(key))) for key in keys)
        if self.kind != "redis":
            return (self.settings.store_dir / name).read_bytes()
        return cast(bytes, self.client.get(name))

    def replace(self, name: str, raw: bytes) -> None:
        """Puts other bytes in their place, as a fault would: in the same file; in the bucket, of which no host has a
        copy."""
        if isinstance(self.store, ObjectMatrixStore):
            size = self.store.bucket.size(elements_key(name))
            self.store.bucket.put(elements_key(name), raw[:size])
            self.store.bucket.put(digests_key(name), raw[size:])
            self.lose_copies()
            return
        if self.kind != "redis":
            with open(self.settings.store_dir / name, "r+b") as file:
                file.write(raw)
                file.truncate()
        else:
            self.client.set(name, raw)

    def flip(self, position: int, matrix_id: str = "") -> None:
        """Flips the lowest bit of one byte of the one matrix kept whose name has `matrix_id` in it."""
        names = [name for name in self.kept() if matrix_id in name]
        chunk, offset = (0, position) if self.kind != "redis" else divmod(position, READ_CHUNK_BYTES)
        raw = bytearray(self.raw(names[chunk]))
        raw[offset] ^= 1
        self.replace(names[chunk], bytes(raw))

    def lose_elements(self) -> None:
        """Removes all elements, and leaves the books as they are."""
        for name in self.kept():
            if isinstance(self.store, ObjectMatrixStore):
                self.store.bucket.delete([elements_key(name), digests_key(name)])
                self.lose_copies()
            elif self.kind != "redis":
                (self.settings.store_dir / name).unlink()
            else:
                self.client.delete(name)

    def copies(self) -> list[str]:
        """The names of this host's files."""
        return sorted(path.name for path in self.settings.store_dir.iterdir() if path.is_file())

    def lose_copies(self) -> None:
        """As a host that has none."""
        for name in self.copies():
            (self.settings.store_dir / name).unlink()

    def book_keys(self) -> list[str]:
        """Every key of the books."""
        keys = cast(list[bytes], self.client.keys(f"{self.settings.key_prefix}matri*"))
        return sorted(key.decode() for key in keys)


MakeStores = Callable[..., StoreBench]


def numbers(shape: tuple[int, ...], dtype: DTypeName = "float32", seed: int = 0) -> Array:
    """An array that no other seed gives."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 100, shape)
    if DTYPES[dtype].is_complex:
        return (raw + 1j * rng.integers(0, 100, shape)).astype(STORAGE_DTYPES[dtype])
    return raw.astype(STORAGE_DTYPES[dtype])


def store_settings(kind: StoreKind) -> dict[str, Any]:
    """Slots do not need a tmpfs where a setting asks for them."""
    return {
        "store": {"redis": "redis", "objects": "s3"}.get(kind, "file"),
        "store_free_bytes": FREE_BYTES if kind in ("slots", "objects") else 0,
    }


def make_bench(kind: StoreKind, url: str, prefix: str, directory: Path, **settings: Any) -> StoreBench:
    own = {"redis_timeout_s": 5.0} | store_settings(kind) | settings
    asked = Settings(redis_url=SecretStr(url), key_prefix=prefix, store_dir=directory / "matrices", **own)
    client = connect(asked)
    return StoreBench(kind, asked, client, make_matrix_store(asked, client, keeps_maps=True))


def fresh_name() -> str:
    return new_id("op")


def nothing_is_left(bench: StoreBench) -> bool:
    return bench.kept() == [] and bench.book_keys() == [] and bench.store.used_bytes() == 0
