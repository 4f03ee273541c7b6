"""XXH3-64 of each part of matrices' stored bytes, computed where they lie on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import cupy
import numpy as np

from jobs.formats.elements import Array
from worker.cuda.compile import Compiler
from worker.cuda.digests.plan import MIN_DIGESTED_BYTES, THREADS, digest_plan, stored_bytes
from worker.cuda.memory import DeviceMatrix
from worker.cuda.results import DeviceResults
from worker.cuda.sources import digest_program


class Place(NamedTuple):
    """Where a matrix's digests lie in the results, in words."""

    begin: int
    parts: int


@dataclass(frozen=True, slots=True)
class PendingDigests:
    """Digests being copied to the host, after `start` is called, behind the kernel that computes them."""

    _places: Sequence[Place]
    _results: DeviceResults

    @property
    def done(self) -> Any:
        """The event after the copy."""
        return self._results.done

    def start(self) -> None:
        self._results.start()

    def result(self) -> list[Array]:
        """uint64 (parts,) for each matrix. Waits for the device."""
        whole = self._results.wait().view(np.uint64)
        return [whole[place.begin : place.begin + place.parts] for place in self._places]


def launch_digests(compiler: Compiler, matrices: Sequence[DeviceMatrix]) -> PendingDigests:
    """A part has 16 KiB, the last one up to twice as much. Raises ValueError for a matrix below MIN_DIGESTED_BYTES,
    which has to be hashed on the host."""
    plans = []
    for matrix in matrices:
        if stored_bytes(matrix.layout) < MIN_DIGESTED_BYTES:
            raise ValueError(f"a matrix of {stored_bytes(matrix.layout)} bytes is digested on the host")
        plans.append(digest_plan(matrix.layout, matrix.address))
    size = 8 * sum(planned.parts for planned in plans)
    memory = cupy.cuda.alloc(max(size, 1))
    places, begin = [], 0
    for matrix, planned in zip(matrices, plans, strict=True):
        arguments = (np.uint64(matrix.address), *planned.arguments, np.uint64(memory.ptr + 8 * begin))
        _function(compiler, planned.function)((planned.blocks,), (THREADS,), arguments)
        places.append(Place(begin, planned.parts))
        begin += planned.parts
    return PendingDigests(places, DeviceResults(compiler, memory, 0, size).start())


def launch_digests_into(compiler: Compiler, matrix: DeviceMatrix, address: int) -> None:
    """The same of one matrix, written to the device's memory at that address: nothing is allocated, which would wait
    for the device."""
    planned = digest_plan(matrix.layout, matrix.address)
    arguments = (np.uint64(matrix.address), *planned.arguments, np.uint64(address))
    _function(compiler, planned.function)((planned.blocks,), (THREADS,), arguments)


@lru_cache(maxsize=16)
def _function(compiler: Compiler, name: str) -> Any:
    return compiler.function(digest_program(), name)
