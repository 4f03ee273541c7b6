"""A process that has a matrix of a slot in its hands and waits, for tests that let it go on or kill it.

python -m tests.support.slots REDIS_URL PREFIX DIRECTORY ROLE NAME ROWS COLUMNS

It prints a line once it has begun. Told to go on, by a line of any text, a reader reads the rest, or looks at the array
that it has had all the time, and prints the sha256 of all the bytes that it saw.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from jobs.formats.elements import matrix_bytes
from jobs.matrices.interface import MatrixStore
from tests.support.stores import fresh_name, make_bench, numbers

Shape = tuple[int, int]


def _pause() -> None:
    print("begun", flush=True)
    sys.stdin.readline()


def sends(store: MatrixStore, name: str, shape: Shape) -> None:
    """Reads piece by piece, as the API does for a reply."""
    pieces = store.chunks(name, matrix_bytes("float32", shape))
    seen = hashlib.sha256(next(pieces))
    _pause()
    for piece in pieces:
        seen.update(piece)
    print(seen.hexdigest())


def maps(store: MatrixStore, name: str, shape: Shape) -> None:
    """Maps it, as a worker does an operand, and looks at it after its context."""
    with store.open(name, "float32", shape) as stored:
        elements = stored.elements
    del stored
    _pause()
    print(hashlib.sha256(elements.tobytes()).hexdigest())


def uploads(store: MatrixStore, name: str, shape: Shape) -> None:
    """Writes half of it."""
    with store.create("float32", shape, owner="ada", ttl_s=60, name=name) as writer:
        writer.write(numbers(shape).tobytes()[: matrix_bytes("float32", shape) // 2])
        _pause()


def computes(store: MatrixStore, name: str, shape: Shape) -> None:
    """Has a place, and wrote to it."""
    with store.place("float32", shape) as place:
        assert place is not None, "slots are on"
        place.elements[:] = numbers(shape)
        _pause()


def churns(store: MatrixStore, seed: str, shape: Shape) -> None:
    """Stores and deletes one matrix after the other, and counts them, until it is killed. Every other one it reads to
    its end once it has deleted it: a byte that is not its own ends the process."""
    print("begun", flush=True)
    for number in count(1):
        array, name = numbers(shape, seed=number * 10 + int(seed)), fresh_name()
        with store.create("float32", shape, owner=seed, ttl_s=60, name=name) as writer:
            writer.write(array.tobytes())
            writer.commit()
        pieces = store.chunks(name, array.nbytes) if number % 2 else iter([memoryview(array.tobytes())])
        first = next(pieces)
        store.delete(name, owner=seed)
        if b"".join([first, *pieces]) != array.tobytes():
            sys.exit("another's bytes came")
        print(number, flush=True)


ROLES: dict[str, Callable[[MatrixStore, str, Shape], None]] = {
    each.__name__: each for each in (sends, maps, uploads, computes, churns)
}

if __name__ == "__main__":
    url, prefix, directory, role, name, rows, columns = sys.argv[1:]
    ROLES[role](make_bench("slots", url, prefix, Path(directory)).store, name, (int(rows), int(columns)))
