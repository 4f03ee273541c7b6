"""The GPU worker's tasks, but that products of one depth are launched on an address that is nobody's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobs.settings import Settings
from tests.support.workers.poison import FAULTS
from worker.device.runner import Runner
from worker.process import start, tasks

__all__ = ["tasks"]

NOWHERE = 64
_make_runner = start.make_runner


def make_poisoned(settings: Settings) -> Runner:
    """In the child alone: the parent must not import CuPy."""
    import cupy

    from worker.cuda.launch import PreparedKernel

    launch = PreparedKernel.launch

    def poisoned(self: PreparedKernel, a: Any, b: Any, c: Any, gate: int | None = None) -> None:
        if self.plan.problem.k == FAULTS:
            a = replace(a, memory=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(NOWHERE, 1 << 30, None, 0), 0))
        launch(self, a, b, c, gate)

    setattr(PreparedKernel, "launch", poisoned)  # noqa: B010  # a method is not to be assigned
    return _make_runner(settings)


start.make_runner = make_poisoned
