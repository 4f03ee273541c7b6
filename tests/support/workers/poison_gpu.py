"""The GPU worker's tasks, but that products of certain depths go wrong on the device itself."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from jobs.settings import Settings
from tests.support.workers.poison import FAULTS, HANGS
from worker.device.runner import Runner
from worker.process import start, tasks

__all__ = ["tasks"]

NOWHERE = 64
TOO_MUCH = 1 << 50
# Depths: memory runs out once; nothing is written; an element is wrong, each time by another value.
IS_FULL_ONCE, WRITES_NOTHING, IS_WRONG_AT_RANDOM = 1101, 1102, 1103
SPINS = 'extern "C" __global__ void spin(volatile int* word) { while (*word == 0) {} }'
_make_runner = start.make_runner


def make_poisoned(settings: Settings) -> Runner:
    """In the child alone: the parent must not import CuPy."""
    import cupy

    from worker.cuda.launch import PreparedKernel

    launch = PreparedKernel.launch

    seen: set[int] = set()

    def poisoned(self: PreparedKernel, a: Any, b: Any, c: Any, *gate: Any, **more: Any) -> None:
        depth = self.plan.problem.k
        if depth == FAULTS:
            a = replace(a, memory=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(NOWHERE, 1 << 30, None, 0), 0))
        if depth == HANGS:
            cupy.RawKernel(SPINS, "spin")((1,), (1,), (cupy.zeros(1, cupy.int32),))
        if depth == IS_FULL_ONCE and depth not in seen:
            seen.add(depth)
            cupy.cuda.alloc(TOO_MUCH)
        if depth != WRITES_NOTHING:
            launch(self, a, b, c, *gate, **more)
        if depth == IS_WRONG_AT_RANDOM:
            for byte in range(4):
                (c.memory + byte).memset_async(secrets.randbelow(256), 1)

    setattr(PreparedKernel, "launch", poisoned)  # noqa: B010  # a method is not to be assigned
    return _make_runner(settings)


start.make_runner = make_poisoned
