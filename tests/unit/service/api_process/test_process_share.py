"""How many API processes there are, and what each has of a bound that holds for all."""

from __future__ import annotations

import os

import pytest

from jobs.settings import Settings
from service.api_process.share import ALONE, Share
from service.local.api import process_count
from service.server.deadlines import MAX_CONNECTIONS, LimitedProtocol, protocol_class


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (4, 1), (5, 2), (8, 4), (16, 8), (64, 8)])
def test_as_many_as_the_cores_suggest(monkeypatch: pytest.MonkeyPatch, cores: int, processes: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert process_count(Settings()) == processes
    assert process_count(Settings(api_processes=3)) == 3


def test_a_bound_is_divided_but_never_to_nothing() -> None:
    assert ALONE.of(64) == 64
    assert Share(2, 8, None).of(64) == 8
    assert Share(2, 8, None).of(64, minimum=16) == 16
    assert Share(2, 8, None).of(4) == 1


def test_connections_are_bounded_for_all_together() -> None:
    shared = protocol_class(Settings(), Share(0, 4, None))
    assert issubclass(shared, LimitedProtocol)
    assert 4 * shared.max_connections == MAX_CONNECTIONS
