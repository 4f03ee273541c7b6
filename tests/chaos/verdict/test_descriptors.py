"""What the harness counts of a process is what that process holds, and each count has its own bound."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tests.chaos.layout import APIS, USUAL, Layout
from tests.chaos.stack import ChaosStack
from tests.chaos.verdict import descriptors
from tests.chaos.verdict.descriptors import Held, held, too_many
from tests.chaos.verdict.margins import Margins

HOLDER = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
port, redis, clients, files = listening.getsockname()[1], *map(int, sys.argv[1:4])
held = [socket.create_connection(("127.0.0.1", redis)) for _ in range(3)]
callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
held += [listening.accept()[0] for _ in range(clients)]
held += [open(sys.argv[4], "w") for _ in range(files)]
print(port, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class _Part:
    pid: int


@dataclass
class _Stack:
    """As much of a stack as is looked at."""

    stores: tuple[Path, ...]
    parts: dict[str, _Part]
    ports: dict[str, int]
    redis: int
    server: socket.socket  # that accepts no connection
    layout: Layout = USUAL
    margins: Margins = field(default_factory=Margins)

    def redis_port(self, name: str) -> int:
        return self.redis

    def objects_port(self, name: str) -> None:
        return None


@contextmanager
def _holding(directory: Path, *, clients: int, files: int) -> Iterator[ChaosStack]:
    """An API that has three connections to Redis, and so many others."""
    with closing(socket.create_server(("127.0.0.1", 0))) as redis:
        port = redis.getsockname()[1]
        command = [sys.executable, "-c", HOLDER, *map(str, (port, clients, files)), str(directory / "file")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            own = int(process.stdout.readline())
            parts, ports = {APIS[0]: _Part(process.pid)}, {APIS[0]: own}
            yield cast("ChaosStack", _Stack((directory / "store",), parts, ports, port, redis))
            process.kill()


def test_connections_are_counted_by_what_they_are_for(tmp_path: Path) -> None:
    with _holding(tmp_path, clients=2, files=5) as stack:
        found = held(stack, APIS[0])
    assert (found.to_redis, found.of_clients) == (3, 2)
    assert found.others[str(tmp_path)] == 5
    assert found.others["socket"] == 3, "one listens, and two are the callers' ends"


def test_connections_that_redis_reset_still_count(tmp_path: Path) -> None:
    with _holding(tmp_path, clients=0, files=0) as stack:
        cast("_Stack", stack).server.close()
        found = held(stack, APIS[0])
    assert found.to_redis == 3
    assert found.others["socket"] == 1


@pytest.mark.parametrize(("bound", "what"), [("MAX_THREADS", "3 connections to Redis"), ("MORE", "5 more descriptors")])
def test_what_is_beyond_its_bound_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, what: str
) -> None:
    monkeypatch.setattr(descriptors, "BESIDE_THREADS", 0)
    with _holding(tmp_path, clients=0, files=5) as stack:
        before = {APIS[0]: Held(others=held(stack, APIS[0]).others - Counter({str(tmp_path): 5}))}
        assert too_many(stack, before) == []
        monkeypatch.setattr(descriptors, bound, 2)
        (line,) = too_many(stack, before)
    assert what in line


def test_margins_tell_the_most_of_each_and_the_nearest_first() -> None:
    margins = Margins()
    for what, seen, bound in (("a wait, s", 3.0, 120.0), ("a wait, s", 2.0, 120.0), ("connections", 40, 72)):
        margins.note(what, seen, bound)
    assert list(margins.as_record().items()) == [("connections", [40, 72]), ("a wait, s", [3.0, 120.0])]
