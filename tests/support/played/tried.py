"""Which of several ways to launch a product is found the fastest: `python -m tests.support.played.tried` prints the
index of the one chosen and the indices of those launched, for ways that take so many ms on a GPU that is not there.

CuPy is replaced, so this is for a process of its own.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest.mock import MagicMock

CASES = {"short": (1.0, 0.5, 0.4, 0.6), "long": (62.0, 11.0, 10.0, 9.0), "refused": (62.0, None, 11.0, 10.0)}


def main() -> None:
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs")
    sys.modules.update({"cupy": MagicMock(name="cupy")} | dict.fromkeys(within, MagicMock()))
    from jobs.errors import KernelUnavailable
    from worker.cuda.library import trial

    launched: list[int] = []

    def way(index: int, ms: float | None) -> Any:
        def launch() -> float:
            if ms is None:
                raise KernelUnavailable("not here")
            launched.append(index)
            return ms

        return launch

    def flushed() -> None:
        """Memory is not written here."""

    clock = MagicMock()
    clock.kernel_ms = lambda launch, is_loaded: launch()
    for name, replacement in {"KernelClock": lambda _: clock, "flush": flushed}.items():
        setattr(trial, name, replacement)
    told: dict[str, dict[str, Any]] = {}
    for name, times_ms in CASES.items():
        launched.clear()
        chosen = trial.Trial(MagicMock()).fastest([way(index, ms) for index, ms in enumerate(times_ms)])
        told[name] = {"chosen": chosen, "launched": sorted(set(launched))}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
