"""Requests with a wrong key, by the address that they come from: a few are answered 401, a flood of them 429.

A right key is let in whatever its address did: behind a proxy all callers have one address.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Scope

MAX_ADDRESSES = 4096  # remembered at one time; the one that failed longest ago is forgotten
WINDOW_S = 60.0
HERE = "local"  # a Unix socket
IPV6_PREFIX = 64  # one network's: whoever has one address of it has them all


def address_of(scope: Scope) -> str:
    """Where the request comes from, as far as one caller can choose it."""
    client = scope.get("client")
    if not client or not client[0]:
        return HERE
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return HERE
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


class FailedAttempts:
    """A bucket for each address, of `per_minute` failures, that fills again evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._each_s = WINDOW_S / per_minute
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()  # when all its failures are forgotten

    def __len__(self) -> int:
        return len(self._free_at)

    def failed(self, address: str) -> bool:
        """Counts one failure more; whether they are too many."""
        now = self._clock()
        free_at = max(self._free_at.pop(address, now), now)
        too_many = free_at + self._each_s > now + WINDOW_S
        self._free_at[address] = free_at if too_many else free_at + self._each_s
        while len(self._free_at) > MAX_ADDRESSES:
            self._free_at.popitem(last=False)
        return too_many
