"""Checks settings that depend on each other: combinations that would lose jobs or declare healthy workers dead."""

from __future__ import annotations

from jobs.errors import InvalidSettings

BEATS_PER_LEASE = 3  # a lease survives two renewals that get lost
MAX_SWEEP_S = 2.0  # a sweeper keeps its lock for 3 s, and must come back before


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
