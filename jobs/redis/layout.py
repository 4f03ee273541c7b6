"""Which version of the keys a Redis holds: what is kept where, and in what form.

The first process writes the number. It stays as long as all that changes is added to what there is; a version that
changes more has the next number. Each version works on two: its own, and the one before as it finds it.
"""

from __future__ import annotations

from typing import Any

import redis
import structlog

from jobs.errors import InvalidSettings, StoreFull, StoreUnavailable
from jobs.redis.client import address_of, connect, translated
from jobs.setting_groups.redis_tls import refusal
from jobs.settings import Settings

LAYOUT = 1
OLDEST = LAYOUT - 1  # 0: written before there was a number

log = structlog.get_logger(__name__)


class WrongLayout(InvalidSettings):
    """The job store holds the data of a version of the service that this one cannot work with."""

    type = "wrong_layout"


def claim_layout(settings: Settings) -> None:
    """At a process's start: writes the number where there is none. A Redis that is away is asked again by /readyz.

    Raises WrongLayout; InvalidSettings where a certificate is not accepted.
    """
    with connect(settings) as client:
        try:
            _compare(_written(client, settings.key_prefix))
        except (StoreUnavailable, StoreFull):
            log.warning("Redis does not answer; MATMUL_REDIS_URL says where it is", address=address_of(settings))


@translated()
def check_layout(client: redis.Redis, prefix: str) -> None:
    """Raises WrongLayout, StoreUnavailable."""
    _compare(client.get(_key(prefix)))


@translated()
def _written(client: redis.Redis, prefix: str) -> Any:
    """What was there; None where this wrote it. Raises InvalidSettings where a certificate is not accepted."""
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
