"""Slots between processes: what one reads, another does not write; what one held that was killed is found again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from jobs.matrices import file_store
from jobs.matrices.file_store import FileMatrixStore
from tests.integration.matrices.test_slots import bench
from tests.support.stores import FREE_BYTES, LARGE, StoreBench, fresh_name, numbers

__all__ = ["bench"]

ARRAY = numbers(LARGE)
ROUNDS = 15


@contextmanager
def process(bench: StoreBench, role: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """One that has begun (tests/support/slots.py)."""
    settings = bench.settings
    place = [settings.redis_url.get_secret_value(), settings.key_prefix, str(settings.store_dir.parent)]
    command = [sys.executable, "-m", "tests.support.slots", *place, role, name, *map(str, LARGE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "begun\n"
        try:
            yield running
        finally:
            running.kill()


def goes_on(running: subprocess.Popen[str]) -> str:
    """What it prints at its end."""
    return running.communicate("go on\n", timeout=240)[0].strip()


def inodes(paths: list[Path]) -> set[int]:
    return {path.stat().st_ino for path in paths}


@pytest.mark.parametrize("role", ["sends", "maps"])
def test_what_another_process_reads_is_not_written_over(bench: StoreBench, role: str) -> None:
    name = bench.put(ARRAY, name=fresh_name()).id
    with process(bench, role, name) as reader:
        bench.store.delete(name, owner="ada")
        for seed in range(1, 4):
            bench.put(numbers(LARGE, seed=seed), owner="eve", name=fresh_name())
        assert goes_on(reader) == hashlib.sha256(ARRAY.tobytes()).hexdigest()


@pytest.mark.parametrize("role", ["sends", "maps"])
def test_a_reader_that_is_killed_holds_nothing(bench: StoreBench, role: str) -> None:
    name = bench.put(ARRAY, name=fresh_name()).id
    (path,) = (bench.settings.store_dir / kept for kept in bench.kept())
    before = inodes([path])
    with process(bench, role, name):
        pass
    bench.store.delete(name, owner="ada")
    assert inodes(bench.free()) == before


@pytest.mark.parametrize("role", ["uploads", "computes"])
def test_the_slot_of_a_writer_that_is_killed_is_found_again(
    bench: StoreBench, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.store.delete(bench.put(ARRAY, name=fresh_name()).id, owner="ada")
    before = inodes(bench.free())
    monkeypatch.setattr(file_store, "SLOT_LEFTOVER_AGE_S", -1.0)
    monkeypatch.setattr(file_store, "LOOK_ROUND_S", 0.0)
    with process(bench, role, fresh_name()):
        assert bench.free() == [] and len(bench.kept()) == 1
        bench.store.sweep()
        assert bench.free() == [] and len(bench.kept()) == 1  # it lives
    bench.store.sweep()
    assert bench.kept() == [] and inodes(bench.free()) == before
    np.testing.assert_array_equal(
        bench.get(bench.put(numbers(LARGE, seed=1), name=fresh_name())), numbers(LARGE, seed=1)
    )


def test_processes_that_are_killed_anywhere_lose_no_memory(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads what it has just deleted while the others store theirs, and ends where it sees a byte of another's.
    After a sweep there are the matrices in the books, and free slots within their bound."""
    monkeypatch.setattr(file_store, "SLOT_LEFTOVER_AGE_S", -1.0)
    monkeypatch.setattr(file_store, "LEFTOVER_AGE_S", -1.0)  # one may be killed between the books and the file
    monkeypatch.setattr(file_store, "LOOK_ROUND_S", 0.0)
    with ExitStack() as stack:
        running = [stack.enter_context(process(bench, "churns", str(number))) for number in range(3)]
        for each in running:
            assert each.stdout is not None
            rounds = [each.stdout.readline() for _ in range(ROUNDS)]
            assert rounds[-1] == f"{ROUNDS}\n", "it saw another's bytes"
    assert isinstance(bench.store, FileMatrixStore)
    bench.store.sweep()
    assert bench.kept() == [each and each.data for each in bench.store.index.all_elements(bench.kept())]
    assert sum(path.stat().st_size for path in bench.free()) <= FREE_BYTES
