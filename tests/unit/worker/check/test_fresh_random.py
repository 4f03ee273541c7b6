"""Generators for checks: each launch's numbers are new, and none follow from those of another."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from worker.device import random_bits
from worker.device.random_bits import DRAWN_BYTES, SEED_BYTES, fresh_bits
from worker.product.fresh_random import fresh_rng


def test_each_has_numbers_of_its_own() -> None:
    drawn = [fresh_rng().integers(0, 2**63, 4) for _ in range(64)]
    assert len({int(number) for each in drawn for number in each}) == 4 * 64


def test_its_numbers_follow_from_the_bits_that_the_system_drew_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was drawn before, and of whatever kind."""
    monkeypatch.setattr(random_bits, "_of_thread", random_bits._OfThread())
    monkeypatch.setattr(os, "urandom", lambda count: bytes(range(SEED_BYTES)) * (count // SEED_BYTES))
    first = fresh_rng().random(3)
    fresh_rng().integers(0, 9, 1, dtype=np.uint32)  # which keeps the other half of a word for the next time
    np.testing.assert_array_equal(fresh_rng().random(3), first)
    begun = fresh_rng().integers(0, 1 << 32, 3, dtype=np.uint32)
    np.testing.assert_array_equal(fresh_rng().integers(0, 1 << 32, 3, dtype=np.uint32), begun)


def test_threads_have_different_ones() -> None:
    both = Barrier(2)

    def draw(_: int) -> list[float]:
        rng = fresh_rng()
        both.wait(60)
        return [float(each) for each in rng.random(5)]

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(draw, range(2))
    assert not {*one} & {*other}


def test_bits_are_used_once_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def draw(count: int) -> bytes:
        drawn.append(np.random.default_rng(len(drawn)).bytes(count))
        return drawn[-1]

    monkeypatch.setattr(random_bits, "_of_thread", random_bits._OfThread())
    monkeypatch.setattr(os, "urandom", draw)
    count = 2 * DRAWN_BYTES // SEED_BYTES
    seen = [fresh_bits() for _ in range(count)]
    assert len(set(seen)) == count and len(drawn) == 2
    assert b"".join(each.to_bytes(SEED_BYTES, "little") for each in seen) == b"".join(drawn)


def test_a_forked_process_draws_bits_of_its_own() -> None:
    fresh_bits()
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.write(theirs, fresh_bits().to_bytes(SEED_BYTES, "little"))
        os._exit(0)
    os.waitpid(child, 0)
    assert int.from_bytes(os.read(ours, SEED_BYTES), "little") != fresh_bits()
    os.close(ours)
    os.close(theirs)
