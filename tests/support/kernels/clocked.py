"""How products are timed, without a GPU: `python -m tests.support.kernels.clocked` prints what happens, in order, for a
product of each kind, and ends.

CuPy is replaced, so this is for a process of its own. A launch takes Python 1 ms; a function that the driver has still
to load waits for the stream.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

LAUNCH_MS = 1.0


class Device:
    """Knows what happened, and what time the host and the stream have."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.host_ms = self.stream_ms = 0.0
        self.is_held = self.gave_up = False

    def launch(self, kernel_ms: float, *, waits: bool = False) -> None:
        self.happened.append("launch")
        self.host_ms += LAUNCH_MS
        if waits and self.is_held:
            self.host_ms += 20.0  # until the gate opens by itself
            self.stream_ms = self.host_ms
            self.is_held, self.gave_up = False, True
        self.put(kernel_ms)

    def put(self, ms: float) -> None:
        """What is held takes its turn in no time that counts."""
        self.stream_ms = (self.stream_ms if self.is_held else max(self.stream_ms, self.host_ms)) + ms


class Gate:
    """As `worker.cuda.gpu.launch_gate.LaunchGate`."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def close(self) -> None:
        self._device.happened.append("close")
        self._device.is_held, self._device.gave_up = True, False

    def open(self) -> None:
        self._device.happened.append("open")
        self._device.is_held = False

    @property
    def gave_up(self) -> bool:
        return self._device.gave_up


def main() -> None:
    cupy: Any = MagicMock(name="cupy")
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs")
    sys.modules.update({"cupy": cupy} | dict.fromkeys(within, MagicMock()))
    from worker.cuda.gpu import kernel_clock

    told: dict[str, dict[str, Any]] = {}
    device = Device()

    def event() -> Any:
        def record() -> None:
            device.put(0.0)
            made.at_ms = device.stream_ms

        made = SimpleNamespace(record=record, synchronize=lambda: None, at_ms=0.0)
        return made

    cupy.cuda.Event = event
    cupy.cuda.get_elapsed_time = lambda start, end: end.at_ms - start.at_ms
    setattr(kernel_clock, "LaunchGate", lambda *_: Gate(device))  # noqa: B010  # a name that it has imported
    clock = kernel_clock.KernelClock(MagicMock())
    loads = {"first": True}

    def several() -> None:
        for _ in range(3):
            device.launch(0.1)

    def waits_once() -> None:
        device.launch(0.1, waits=loads.pop("first", False))

    def refused() -> None:
        raise MemoryError

    cases: dict[str, tuple[Any, bool]] = {
        "loaded": (several, True),
        "not loaded": (several, False),
        "long and not loaded": (lambda: device.launch(50.0), False),
        "waits for the device": (waits_once, True),
        "refused": (refused, True),
    }
    for name, (launch, is_loaded) in cases.items():
        device.happened.clear()
        try:
            kernel_ms = round(
                clock.kernel_ms(launch, is_loaded=is_loaded, meanwhile=lambda: device.happened.append("follow")), 6
            )
        except MemoryError:
            kernel_ms = -1.0
        told[name] = {"kernel_ms": kernel_ms, "happened": list(device.happened)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
