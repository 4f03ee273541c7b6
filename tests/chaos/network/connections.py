"""Connections of many threads to several APIs: each thread has one to each, and keeps it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.chaos.network.wire import Reply, Wire, request

ANSWER_TIMEOUT_S = 60.0


class Connections:
    """`ports`: of the APIs, by name."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = dict(ports)
        self._own = threading.local()
        self._opened: list[Wire] = []

    @contextmanager
    def threads(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """Their connections end with them."""
        with ThreadPoolExecutor(count) as pool:
            yield pool
        for wire in self._opened:
            wire.close()
        self._opened.clear()
        self._own = threading.local()

    def ask(self, name: str, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Raises OSError where no whole reply came."""
        if not hasattr(self._own, "wires"):
            self._own.wires = {each: Wire(port) for each, port in self._ports.items()}
            self._opened += self._own.wires.values()
        content = b"" if body is None else json.dumps(body).encode()
        sent = request(method, path, "", {"Content-Type": "application/json", **headers}, content)
        reply: Reply = self._own.wires[name].ask(sent, ANSWER_TIMEOUT_S)
        return reply
