"""Checks what the types of settings do not: combinations that would lose jobs or declare healthy workers dead, times
beyond the calendar, and blank paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from jobs.errors import InvalidSettings

BEATS_PER_LEASE = 3  # a lease survives two renewals that get lost
MAX_TIME_S = 100 * 31_557_600  # a hundred years: a time far beyond is none that Redis or a date can have
MAX_INTEGER = 2**63 - 1
MAX_SWEEP_S = 2.0  # a sweeper keeps its lock for 3 s, and must come back before


def file_mode(value: Any) -> Any:
    """A mode in octal digits as its number. Raises ValueError."""
    if isinstance(value, str) and re.fullmatch("0?[0-7]{3}", value) is None:
        raise ValueError("must be three octal digits, as 600")
    return int(value, 8) if isinstance(value, str) else value


def check_times(
    *,
    lease_s: float,
    heartbeat_s: float,
    worker_ttl_s: float,
    sweep_s: float,
    redis_timeout_s: float,
    default_wait_s: float,
    max_wait_s: float,
) -> None:
    """Raises InvalidSettings with every rule that does not hold."""
    rules = [
        (
            heartbeat_s * BEATS_PER_LEASE <= lease_s,
            f"MATMUL_HEARTBEAT_S is {heartbeat_s:g} and MATMUL_LEASE_S is {lease_s:g}: a lease must last for "
            f"{BEATS_PER_LEASE} heartbeats at least, or sound workers lose their jobs.",
        ),
        (
            redis_timeout_s < lease_s,
            f"MATMUL_REDIS_TIMEOUT_S is {redis_timeout_s:g} and MATMUL_LEASE_S is {lease_s:g}: a lease must outlast "
            "one slow answer of Redis.",
        ),
        (
            heartbeat_s < worker_ttl_s,
            f"MATMUL_HEARTBEAT_S is {heartbeat_s:g} and MATMUL_WORKER_TTL_S is {worker_ttl_s:g}: a worker must be "
            "heard of again before it counts as gone.",
        ),
        (
            sweep_s <= MAX_SWEEP_S,
            f"MATMUL_SWEEP_S is {sweep_s:g}: it must be {MAX_SWEEP_S:g} at most, or no process sweeps twice in a row.",
        ),
        (
            default_wait_s <= max_wait_s,
            f"MATMUL_DEFAULT_WAIT_S is {default_wait_s:g} and MATMUL_MAX_WAIT_S is {max_wait_s:g}: what is waited for "
            "by default must not be longer than what may be asked for.",
        ),
    ]
    if broken := [sentence for holds, sentence in rules if not holds]:
        raise InvalidSettings(" ".join(broken))


def check_sizes(values: Mapping[str, Any]) -> None:
    """Raises InvalidSettings for each number that is too large for what it counts."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
    most = {
        name: MAX_TIME_S if name.endswith("_s") else MAX_INTEGER
        for name, value in numbers.items()
        if name.endswith("_s") or isinstance(value, int)
    }
    if too_large := [name for name, limit in most.items() if numbers[name] > limit]:
        raise InvalidSettings(
            " ".join(
                f"MATMUL_{each.upper()} is {numbers[each]}: it must be {most[each]} at most." for each in too_large
            )
        )


def check_paths(values: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> None:
    """Raises InvalidSettings for each blank path, which would mean the current directory."""
    blank = (name for name, value in values.items() if isinstance(value, str) and not value.strip())
    paths = [name for name in blank if name in fields and fields[name].annotation in (Path, Path | None)]
    if paths:
        raise InvalidSettings(
            " ".join(f"MATMUL_{name.upper()} is blank: give a path, or do not set it." for name in paths)
        )
