"""Ids from a pool of random bytes: none twice, whoever asks."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from jobs.random_hex import POOL_BYTES, random_hex


def test_ids_have_the_size_asked_for() -> None:
    assert [len(random_hex(size)) for size in (1, 8, 16, POOL_BYTES)] == [2, 16, 32, 2 * POOL_BYTES]


def some_ids(count: int) -> list[str]:
    return [random_hex(16) for _ in range(count)]


def test_no_id_comes_twice_over_many_pools_and_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = [each for ids in pool.map(some_ids, [2000] * 8) for each in ids]
    assert len(set(found)) == len(found) == 16_000
    assert len({half for each in found for half in (each[:16], each[16:])}) == 32_000


def test_a_forked_process_gives_others() -> None:
    forks = "random_hex(1); os.fork(); os.write(1, random_hex(8).encode())"
    command = [sys.executable, "-c", f"import os; from jobs.random_hex import random_hex; {forks}"]
    given = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # ends once both have ended
    assert len(given) == 32 and given[:16] != given[16:]
