"""Matrix stores for tests, of all kinds, and a look behind their books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import redis
from pydantic import SecretStr

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import READ_CHUNK_BYTES, MatrixInfo, MatrixStore
from jobs.matrices.slots import FREE
from jobs.models import new_id
from jobs.redis.client import connect
from jobs.settings import Settings
from kernels.model.numerics import DTypeName
from tools.played.elements import dtype_name

StoreKind = Literal["file", "slots", "redis"]  # plain files; files that are used again where they are large
FREE_BYTES = 64 << 20  # of free slots
LARGE = (1500, 1000)  # of float32: a chunk and a half of the redis store


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
        """The names of all elements there are: files, or keys of chunks."""
        if self.kind != "redis":
            return sorted(path.name for path in self.settings.store_dir.iterdir() if path.is_file())
        keys = cast(list[bytes], self.client.keys(f"{self.settings.key_prefix}chunk:*"))
        return sorted(key.decode() for key in keys)

    def free(self) -> list[Path]:
        """The free slots."""
        return sorted((self.settings.store_dir / FREE).glob("*"))

    def raw(self, name: str) -> bytes:
        """What lies under one of the names of `kept`."""
        if self.kind != "redis":
            return (self.settings.store_dir / name).read_bytes()
        return cast(bytes, self.client.get(name))

    def replace(self, name: str, raw: bytes) -> None:
        """Puts other bytes in their place, as a fault would: in the same file."""
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
            if self.kind != "redis":
                (self.settings.store_dir / name).unlink()
            else:
                self.client.delete(name)

    def book_keys(self) -> list[str]:
        """Every key of the books."""
        keys = cast(list[bytes], self.client.keys(f"{self.settings.key_prefix}matri*"))
        return sorted(key.decode() for key in keys)


MakeStores = Callable[..., StoreBench]


def numbers(shape: tuple[int, ...], dtype: DTypeName = "float32", seed: int = 0) -> Array:
    """An array that no other seed gives."""
    raw = np.random.default_rng(seed).integers(0, 100, shape)
    return raw.astype(STORAGE_DTYPES[dtype])


def store_settings(kind: StoreKind) -> dict[str, Any]:
    """Slots do not need a tmpfs where a setting asks for them."""
    return {
        "store": "redis" if kind == "redis" else "file",
        "store_free_bytes": FREE_BYTES if kind == "slots" else 0,
    }


def make_bench(kind: StoreKind, url: str, prefix: str, directory: Path, **settings: Any) -> StoreBench:
    own = store_settings(kind) | settings
    asked = Settings(redis_url=SecretStr(url), key_prefix=prefix, store_dir=directory / "matrices", **own)
    client = connect(asked)
    return StoreBench(kind, asked, client, make_matrix_store(asked, client, keeps_maps=True))


def fresh_name() -> str:
    return new_id("op")


def nothing_is_left(bench: StoreBench) -> bool:
    return bench.kept() == [] and bench.book_keys() == [] and bench.store.used_bytes() == 0
