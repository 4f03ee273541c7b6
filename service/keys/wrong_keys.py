"""Counts requests with a wrong key by client address: a few get 401, many get 429. A valid key is always accepted,
because behind a proxy all callers have one address.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Scope

MAX_ADDRESSES = 4096  # addresses remembered; the one that failed longest ago is forgotten
WINDOW_S = 60.0
HERE = "local"  # a Unix socket
IPV6_PREFIX = 64  # one network; whoever has one of its addresses has them all


def address_of(scope: Scope) -> str:
    """The client's address, reduced to the part that a caller cannot choose freely."""
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


class WrongKeys:
    """A token bucket for each address: `per_minute` failures, refilled evenly."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._each_s = WINDOW_S / per_minute
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()  # when all its failures are forgotten

    def __len__(self) -> int:
        return len(self._free_at)

    def failed(self, address: str) -> bool:
        """Counts one more failure; returns whether there are too many."""
        now = self._clock()
        free_at = max(self._free_at.pop(address, now), now)
        too_many = free_at + self._each_s > now + WINDOW_S
        self._free_at[address] = free_at if too_many else free_at + self._each_s
        while len(self._free_at) > MAX_ADDRESSES:
            self._free_at.popitem(last=False)
        return too_many
