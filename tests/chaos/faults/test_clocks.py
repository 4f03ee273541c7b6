"""Processes whose wall clock is off: it is, it jumps, and they go on with their work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from tests.chaos.callers import Caller, Told
from tests.chaos.faults.fault import Fault
from tests.chaos.faults.processes import jump_clock
from tests.chaos.layout import APIS, USUAL, WORKERS
from tests.chaos.stack import ChaosStack
from tests.chaos.verdict.account import account_for, wait_for_ends
from tests.support.clocks.own_clock import compiler, own_clock

CALLERS = 4
HOUR_S = 3600
TELLS = """
import time
while input():
    time.sleep(0.001)
    print(time.time(), time.monotonic(), flush=True)
"""

pytestmark = pytest.mark.skipif(compiler() is None and "CI" not in os.environ, reason="there is no g++")


def test_a_wall_clock_is_set_while_its_process_runs_and_no_other_clock(tmp_path: Path) -> None:
    with own_clock(tmp_path / "clock") as clock:
        command, env = [sys.executable, "-c", TELLS], {**os.environ, **clock.environment}
        with subprocess.Popen(command, env=env, stdin=-1, stdout=-1, text=True) as process:
            assert process.stdin and process.stdout
            for ahead_s in (0, HOUR_S, -HOUR_S):
                clock.set_ahead(ahead_s)
                wall_s, monotonic_s = time.time() + ahead_s, time.monotonic()
                process.stdin.write("tell\n")
                process.stdin.flush()
                wall, monotonic = map(float, process.stdout.readline().split())
                assert wall_s <= wall <= time.time() + ahead_s and monotonic_s < monotonic < time.monotonic()
            process.kill()


def test_an_api_and_a_worker_serve_though_their_clocks_are_off(tmp_path: Path) -> None:
    """They are the only ones that are left."""
    with ChaosStack(tmp_path, USUAL, seed=1, call_fault_rate=0.0) as stack, stack.client() as client:
        stack.sweeps = True
        for other in (APIS[1], WORKERS[1]):
            stack.terminate(other)
        told, numbers, have_jumped = Told(), count(), threading.Event()

        def until_they_have() -> int | None:
            return None if have_jumped.is_set() else next(numbers)

        with ThreadPoolExecutor(CALLERS + 2) as pool:
            callers = [Caller(i, stack.doors[:1], stack.keys[0], told, 1) for i in range(CALLERS)]
            calls = [pool.submit(caller.run, until_they_have) for caller in callers]
            faults = [Fault("clock jumped", at, 0.5, number) for number, at in enumerate((APIS[0], WORKERS[0]))]
            jumps = [pool.submit(jump_clock, stack, fault) for fault in faults]
            try:
                assert [jump.result() for jump in jumps] == [True, True]
            finally:
                have_jumped.set()
            for call in calls:
                call.result()
        assert wait_for_ends(client, stack.margins) == ""
        assert told.accepted and not told.unexpected
        assert not any(account_for(stack, client, told).counts.values())
