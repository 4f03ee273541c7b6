"""Connections that are taken and given back: each asker gets its own answer, and none meets another's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
import redis

from jobs.redis.connections import IDLE_S, Connections, beside, client_of
from jobs.redis.embedded import EmbeddedServer

TIMEOUT_S = 5.0  # a busy server may take a while
SHORT_TIMEOUT_S = 0.5  # where an answer is to come too late


@pytest.fixture
def connections(valkey: EmbeddedServer) -> Iterator[Connections]:
    with client_of(valkey.url, socket_timeout=TIMEOUT_S) as client:
        yield beside(client)


def client_id(connections: Connections) -> Any:
    return connections.ask("CLIENT", "ID")


def test_one_asker_uses_one_connection(connections: Connections) -> None:
    assert len({client_id(connections) for _ in range(5)}) == 1
    assert connections.opened == 1


def test_each_of_many_gets_its_own_answer(connections: Connections) -> None:
    def ask(number: int) -> bool:
        word = b"%d" % number
        return bool(connections.ask("ECHO", word) == word)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(400)))


def test_an_answer_may_be_read_later(connections: Connections) -> None:
    first = client_id(connections)
    answer = connections.send("CLIENT", "ID")
    assert client_id(connections) != first, "its connection is in use until then"
    assert answer() == first and client_id(connections) == first


def test_a_refusal_leaves_the_connection_in_use(connections: Connections) -> None:
    before = client_id(connections)
    with pytest.raises(redis.ResponseError, match="unknown command"):
        connections.ask("NO-SUCH-COMMAND")
    assert client_id(connections) == before


def test_an_answer_that_comes_too_late_is_no_one_elses(valkey: EmbeddedServer, key_prefix: str) -> None:
    key = f"{key_prefix}none"
    with client_of(valkey.url, socket_timeout=SHORT_TIMEOUT_S) as client, valkey.client() as other:
        connections = beside(client)
        before = client_id(connections)
        with pytest.raises(redis.TimeoutError):
            connections.ask("BLPOP", key, 60)
        other.rpush(key, "theirs")  # the answer, where it is still waited for
        assert connections.ask("ECHO", "mine") == b"mine"
        assert client_id(connections) != before


def test_one_that_was_closed_from_the_other_side_is_opened_again(
    connections: Connections, valkey: EmbeddedServer
) -> None:
    before = client_id(connections)
    with valkey.client() as other:
        other.client_kill_filter(_id=str(before))
    time.sleep(2 * IDLE_S)  # idle for so long it is looked at
    assert client_id(connections) != before
    assert connections.opened == 2


def test_a_forked_child_leaves_its_parents_alone(connections: Connections) -> None:
    before = client_id(connections)

    def ask() -> None:
        assert client_id(connections) != before

    child = get_context("fork").Process(target=ask)
    child.start()
    child.join(60)
    assert child.exitcode == 0 and client_id(connections) == before


def test_they_are_closed_with_their_client(valkey: EmbeddedServer) -> None:
    with valkey.client() as root:
        with client_of(valkey.url) as client:
            mine = client_id(beside(client))
            assert root.client_list(client_id=[str(mine)])
        assert_gone(root, mine)
        assert client_id(beside(client)) != mine  # closed, it opens a new one for who asks
        client.close()


def assert_gone(root: redis.Redis, client: object) -> None:
    """Redis sees the end of a connection in its next round."""
    deadline = time.monotonic() + 30
    while root.client_list(client_id=[str(client)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not root.client_list(client_id=[str(client)])
