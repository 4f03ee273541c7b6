"""Links between processes, and between clients and the service, that go wrong; and clients that do."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from functools import partial
from typing import Literal

from tests.chaos.faults.fault import Fault
from tests.chaos.network.wire import HOST, RST, request
from tests.chaos.stack import ChaosStack

SLOW_S = 0.05
CLIENTS = 12


def once(what: Literal["cut", "reset", "half_open"], stack: ChaosStack, fault: Fault) -> bool:
    """To the connections that there are."""
    stack.link.do(fault.at, what)
    return True


def while_it_lasts(mode: Literal["slow", "hole", "trickle"], stack: ChaosStack, fault: Fault) -> bool:
    """To these and new ones."""
    stack.link.do(fault.at, "mode", mode=mode, delay_s=SLOW_S)
    time.sleep(fault.seconds)
    stack.link.do(fault.at, "mode", mode="plain")
    return True


cut, reset, half_open = partial(once, "cut"), partial(once, "reset"), partial(once, "half_open")
slow, hole, trickle = (partial(while_it_lasts, mode) for mode in ("slow", "hole", "trickle"))


def vanish(stack: ChaosStack, fault: Fault) -> bool:
    """Clients that are gone before their answer."""
    for each in _connections(stack, fault):
        each.sendall(request("GET", "/v1/jobs?limit=200", stack.operator))
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        each.close()
    return True


def never_read(stack: ChaosStack, fault: Fault) -> bool:
    """Clients that ask for much and read none of it."""
    for each in _connections(stack, fault):
        with suppress(OSError):
            each.sendall(request("GET", "/v1/kernels", stack.operator) * 100)
        stack.slow_clients.append(each)
    return True


def never_finish(stack: ChaosStack, fault: Fault) -> bool:
    """Clients that send half a request, and hold on."""
    headers, body = {"Content-Type": "application/json"}, b'{"a": [[1]], "b": [[2]]}'
    whole = request("POST", "/v1/matmul", stack.keys[0], headers, body)
    for i, each in enumerate(_connections(stack, fault)):
        each.sendall(whole[: -1 - i * len(whole) // CLIENTS // 2])
        stack.slow_clients.append(each)
    return True


def _connections(stack: ChaosStack, fault: Fault) -> list[socket.socket]:
    """To the API itself: a link would read for them."""
    made = []
    for _ in range(CLIENTS):
        with suppress(OSError):  # the API may be down
            made.append(socket.create_connection((HOST, stack.ports[fault.at]), 2.0))
    return made
