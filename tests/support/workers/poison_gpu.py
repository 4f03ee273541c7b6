"""The GPU worker's tasks, but that products of one depth are launched on an address that is nobody's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobs.settings import Settings
from tests.support.workers.poison import FAULTS
from worker.device.runner import Runner
from worker.process import child, tasks

__all__ = ["tasks"]

NOWHERE = 64
_make_runner = child.make_runner


def make_poisoned(settings: Settings) -> Runner:
    """In the child alone: the parent must not import CuPy."""
    import cupy

    from worker.cuda import runner as cuda_runner
    from worker.cuda.launch import launch

    def poisoned(function: Any, kernel: Any, config: Any, problem: Any, a: Any, b: Any, c: Any) -> None:
        if problem.k == FAULTS:
            a = replace(a, memory=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(NOWHERE, 1 << 30, None, 0), 0))
        launch(function, kernel, config, problem, a, b, c)

    setattr(cuda_runner, "launch", poisoned)  # noqa: B010  # the module does not export it
    return _make_runner(settings)


child.make_runner = make_poisoned
