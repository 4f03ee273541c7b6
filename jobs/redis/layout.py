"""The layout number of the data in Redis: which keys exist, and in what format. The first process writes it. It stays
the same as long as versions only add to the data; a version that changes existing data uses the next number. Each
version works with two numbers, its own and the previous one.
"""

from __future__ import annotations

from typing import Any

import redis
import structlog

from jobs.errors import InvalidSettings, StoreFull, StoreUnavailable
from jobs.redis.client import address_of, cause_of, connect, translated
from jobs.setting_groups.redis_tls import refusal
from jobs.settings import Settings

LAYOUT = 1
OLDEST = LAYOUT - 1  # 0: written before there was a number

log = structlog.get_logger(__name__)


class WrongLayout(InvalidSettings):
    """The job store holds the data of a version of the service that this one cannot work with."""

    type = "wrong_layout"


def claim_layout(settings: Settings) -> None:
    """Called at a process's start: writes the number if there is none. If Redis is unavailable, /readyz checks later.
    Raises WrongLayout; InvalidSettings if a certificate is not accepted.
    """
    with connect(settings) as client:
        try:
            _compare(_written(client, settings.key_prefix))
        except (StoreUnavailable, StoreFull) as error:
            address, cause = address_of(settings), cause_of(error)
            log.warning("Redis does not serve; MATMUL_REDIS_URL says where it is", address=address, cause=cause)


@translated()
def check_layout(client: redis.Redis, prefix: str) -> None:
    """Raises WrongLayout, StoreUnavailable."""
    _compare(client.get(_key(prefix)))


@translated()
def _written(client: redis.Redis, prefix: str) -> Any:
    """The existing number; None if this call wrote it. Raises InvalidSettings if a certificate is not accepted."""
    try:
        return client.set(_key(prefix), LAYOUT, nx=True, get=True)
    except redis.ConnectionError as error:
        if (reason := refusal(error)) is not None:
            raise InvalidSettings(reason) from error
        raise


def _key(prefix: str) -> str:
    return f"{prefix}layout"


def _compare(found: Any) -> None:
    text = str(LAYOUT) if found is None else found.decode(errors="replace")
    if not text.isdecimal() or not OLDEST <= int(text) <= LAYOUT:
        raise WrongLayout(
            f"The data in Redis has layout {text[:20]}, and this version works with {OLDEST} and {LAYOUT}: "
            "start the version that wrote it, or another Redis."
        )
