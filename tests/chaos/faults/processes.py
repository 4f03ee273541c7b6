"""Processes that die, stop for a while, are restarted, or whose clock jumps."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis

from tests.chaos.faults.fault import Fault
from tests.chaos.layout import APIS
from tests.chaos.stack import PREFIX, ChaosStack
from tests.support.clocks.own_clock import own_clock

UP_TIMEOUT_S = 120.0
WORK_TIMEOUT_S, TILES_TIMEOUT_S, GPU_TILES_TIMEOUT_S = 1.0, 4.0, 30.0  # a GPU takes a while to start
TILES = 2  # that are recorded of a product that a fault is to meet in its middle
CLOCK_STEPS_S = (700, -700)
SERVES_TIMEOUT_S = 10.0


def kill(stack: ChaosStack, fault: Fault) -> bool:
    """SIGKILL, to the children too, and another in its place."""
    stack.parts[fault.at].kill()
    time.sleep(fault.seconds)
    stack.start(fault.at)
    return wait_until_up(stack, fault.at)


def kill_child(stack: ChaosStack, fault: Fault) -> bool:
    return stack.parts[fault.at].kill_child()


def wait_for_work(stack: ChaosStack, worker: str) -> bool:
    """A moment, for it to have a job: an idle worker has none to lose. Where some products go in tiles it is to have
    done some of one's. Whether it had."""
    deadline, pid = time.monotonic() + WORK_TIMEOUT_S, stack.parts[worker].pid
    tiles_s = TILES_TIMEOUT_S if stack.layout.device == "cpu" else GPU_TILES_TIMEOUT_S
    with stack.client() as client, suppress(redis.RedisError):
        if stack.layout.has_tiles and _is_true(lambda: is_in_tiles(client, pid), time.monotonic() + tiles_s):
            return True
        _is_true(lambda: has_work(client, pid), deadline)
    return False


def _is_true(condition: Callable[[], bool], deadline: float) -> bool:
    """By then, if ever."""
    while not (is_true := condition()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return is_true


def has_work(client: redis.Redis, pid: int) -> bool:
    """Whether the worker of that process has a lease, or had one when it ended."""
    return bool(_jobs_of(client, pid))


def is_in_tiles(client: redis.Redis, pid: int) -> bool:
    """Whether one of its jobs is a product of which some tiles are recorded, beside what all of them have in common."""
    return any(client.hlen(f"{PREFIX}job:{job}:findings") > TILES for job in _jobs_of(client, pid))


def _jobs_of(client: redis.Redis, pid: int) -> list[str]:
    leased: Any = client.zrange(f"{PREFIX}leases", 0, -1)
    jobs = [job.decode() for job in leased]
    workers: list[Any] = [client.hget(f"{PREFIX}job:{job}", "worker") for job in jobs]
    return [job for job, worker in zip(jobs, workers, strict=True) if (worker or b"").endswith(f"/{pid}".encode())]


def stop(stack: ChaosStack, fault: Fault) -> bool:
    """SIGSTOP for a while, to the children too."""
    part = stack.parts[fault.at]
    part.signal_group(signal.SIGSTOP)
    time.sleep(fault.seconds)
    part.signal_group(signal.SIGCONT)
    return True


def stop_child(stack: ChaosStack, fault: Fault) -> bool:
    return stack.parts[fault.at].stop_child(fault.seconds)


def restart(stack: ChaosStack, fault: Fault) -> bool:
    """SIGTERM, and another in its place: of the other version, every second time, where there is one."""
    stack.terminate(fault.at)
    stack.start(fault.at, checkout=fault.other if fault.number % 2 else None)
    return wait_until_up(stack, fault.at)


def kill_redis(stack: ChaosStack, fault: Fault) -> bool:
    stack.restart_redis()
    return True


def stop_redis(stack: ChaosStack, fault: Fault) -> bool:
    os.kill(stack.redis.pid, signal.SIGSTOP)
    time.sleep(fault.seconds)
    os.kill(stack.redis.pid, signal.SIGCONT)
    return True


def jump_clock(stack: ChaosStack, fault: Fault) -> bool:
    """A process whose wall clock is off, and jumps once while it runs. False where it was not seen at work both before
    and after, or ended by itself, as where Redis was away at its start: the one in its place has the right clock."""
    step_s, part = CLOCK_STEPS_S[fault.number % 2], stack.parts[fault.at]
    with own_clock(stack.directory / f"clock_{fault.number}") as clock:
        clock.set_ahead(step_s)
        stack.terminate(fault.at)
        stack.start(fault.at, clock.environment)
        pid = part.pid
        wait_until_up(stack, fault.at)
        has_served = True
        for ahead_s in (step_s, -step_s):
            clock.set_ahead(ahead_s)
            time.sleep(fault.seconds)
            has_served = has_served and _serves(stack, fault.at, time.monotonic() + SERVES_TIMEOUT_S)
        has_lasted = part.pid == pid and part.is_running
        stack.terminate(fault.at)
    stack.start(fault.at)
    return wait_until_up(stack, fault.at) and has_lasted and has_served


def _serves(stack: ChaosStack, name: str, deadline: float) -> bool:
    """Whether an API answers, or a worker has a job, by then."""
    if name in APIS:
        return _is_true(lambda: _is_up(stack, name), deadline)
    with stack.client() as client, suppress(redis.RedisError):
        return _is_true(lambda: has_work(client, stack.parts[name].pid), deadline)
    return False


def wait_until_up(stack: ChaosStack, name: str) -> bool:
    """Until an API answers, or a worker has the process that computes. Raises TimeoutError."""
    part, began = stack.parts[name], time.monotonic()
    while time.monotonic() < began + UP_TIMEOUT_S:
        if _is_up(stack, name):
            stack.margins.note("start of a process, s", time.monotonic() - began, UP_TIMEOUT_S)
            return True
        if not part.is_running:
            stack.start(name)  # it ended by itself, as where Redis was away at its start
        time.sleep(0.05)
    raise TimeoutError(f"{name} was not up in {UP_TIMEOUT_S:.0f} s; see {stack.directory}")


def _is_up(stack: ChaosStack, name: str) -> bool:
    if name not in APIS:
        return stack.parts[name].child() is not None
    with suppress(OSError, ValueError):
        stack.ask(name, "/livez")
        return True
    return False
