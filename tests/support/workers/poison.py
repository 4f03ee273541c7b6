"""The worker's tasks, but that products of certain depths go wrong, as products do in bad dreams.

The first run of a job can differ from later ones: a mark in the store's directory tells them apart.
"""

from __future__ import annotations

import os
import signal
import time

from jobs.errors import DeviceFault
from jobs.formats.elements import Array
from jobs.settings import get_settings
from kernels.model.numerics import Problem
from worker.cpu import runner
from worker.cpu.blas import multiply
from worker.cpu.kernels import CPU_KERNELS
from worker.process import tasks

__all__ = ["tasks"]

KILLS, HANGS, HANGS_ONCE, IS_WRONG, FAULTS, TAKES_2_S, HAS_A_BUG = range(1001, 1008)  # depths
SLEEP_S = 60.0
RAN = "ran"  # a file beside the store, once a job that hangs once has begun to


def poisoned(problem: Problem, a: Array, b: Array, out: Array | None = None) -> Array:
    if problem.k == KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    if problem.k == HANGS or (problem.k == HANGS_ONCE and _is_first_run()):
        _hang()
    if problem.k == FAULTS:
        raise DeviceFault("The device reported cudaErrorIllegalAddress; its worker starts again.")
    if problem.k == TAKES_2_S:
        time.sleep(2.0)
    if problem.k == HAS_A_BUG:
        raise ZeroDivisionError
    c = multiply(problem, a, b, out)
    if problem.k == IS_WRONG:
        c[0, 0] += 1
    return c


def _hang() -> None:
    """As a call into C does that never returns: signals do not wake it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    time.sleep(SLEEP_S)


def _is_first_run() -> bool:
    mark = get_settings().store_dir.parent / RAN
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


setattr(runner, "CPU_KERNELS", {**CPU_KERNELS, "cpu_blas": poisoned})  # noqa: B010  # the module does not export it
