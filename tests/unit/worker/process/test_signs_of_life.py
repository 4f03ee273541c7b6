"""When a child counts as one whose threads do not run."""

from __future__ import annotations

import os

from tests.support.workers.workers import until
from worker.process.signs_of_life import LEASES, LOOK_EVERY_S, SignsOfLife

LEASE_S = 3.0
LOOKS = int(LEASES * LEASE_S / LOOK_EVERY_S)


def looks(signs: SignsOfLife, count: int) -> list[bool]:
    return [signs.has_stopped(LEASE_S) for _ in range(count)]


def test_a_child_that_gives_signs_runs() -> None:
    signs = SignsOfLife()
    for _ in range(20):
        signs.give()
        assert not any(looks(signs, LOOKS))


def test_a_child_that_gives_none_any_more_has_stopped_after_two_leases() -> None:
    signs = SignsOfLife()
    signs.give()
    assert looks(signs, LOOKS + 3) == [False] * (LOOKS + 1) + [True] * 2


def test_one_that_gave_none_yet_is_not_judged() -> None:
    """It may take long to start. The same holds for the one that follows a dead one."""
    signs = SignsOfLife()
    assert not any(looks(signs, 10 * LOOKS))
    signs.give()
    looks(signs, 10 * LOOKS)
    signs.forget()
    assert not any(looks(signs, 10 * LOOKS))


def test_signs_of_a_forked_process_are_seen() -> None:
    signs = SignsOfLife()
    pid = os.fork()
    if not pid:
        signs.give()
        os._exit(0)
    os.waitpid(pid, 0)
    looks(signs, 1)
    assert any(looks(signs, LOOKS + 2))


def test_a_thread_gives_them_until_the_process_ends() -> None:
    signs = SignsOfLife()
    signs.begin()
    until(lambda: signs.count > 1, timeout_s=60, what="a second sign")
