"""Measures the device time of a product, without the time that Python takes to launch it."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any

import cupy

from worker.cuda.compile import Compiler
from worker.cuda.gpu.launch_gate import LaunchGate
from worker.device.host_lock import LongWait

HOLD_S = 0.02  # for launches that wait for the device
SHORT_MS = 20.0  # a shorter product is launched again if its time may include launch overhead

Meanwhile = Callable[[], Any]  # returns an event behind the product to wait for in its place, or None


class KernelClock:
    """For the current device and one thread. Its gate and its events are used again and again."""

    def __init__(self, compiler: Compiler) -> None:
        self._gate = LaunchGate(compiler, HOLD_S)
        self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()

    def kernel_ms(
        self,
        launch: Callable[[], None],
        *,
        is_loaded: bool,
        meanwhile: Meanwhile | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> float:
        """Calls `launch`, which puts a product on the current stream, waits for it, and returns the device time.

        `is_loaded`: all its functions are in the driver. A library loads its own at their first launch, which may wait
        for the device; so that one is not held, and then a short product is launched again. For each launch, `before`
        is called before it; `meanwhile` is called while the device computes a launch whose time may count, and may use
        the stream behind the product. Raises what these do.
        """
        before()
        if is_loaded:
            elapsed_ms = self._held_ms(launch, meanwhile)
            if not self._gate.gave_up or elapsed_ms >= SHORT_MS:
                return elapsed_ms
        elif (elapsed_ms := self._elapsed_ms(launch)) >= SHORT_MS:
            self._wait(meanwhile)
            return elapsed_ms
        before()
        return self._held_ms(launch, meanwhile)

    def _held_ms(self, launch: Callable[[], None], meanwhile: Meanwhile | None = None) -> float:
        self._gate.close()
        try:
            self._start.record()
            launch()
            self._end.record()
        finally:
            self._gate.open()
        return self._ended_ms(meanwhile)

    def _elapsed_ms(self, launch: Callable[[], None]) -> float:
        self._start.record()
        launch()
        self._end.record()
        return self._ended_ms()

    def _ended_ms(self, meanwhile: Meanwhile | None = None) -> float:
        self._wait(meanwhile)
        return float(cupy.cuda.get_elapsed_time(self._start, self._end))

    def _wait(self, meanwhile: Meanwhile | None) -> None:
        later = None if meanwhile is None else meanwhile()
        with LongWait():
            (later or self._end).synchronize()


class ThreadClock(local):
    """Each thread has one of its own: several may have products on the device."""

    def __init__(self, compiler: Compiler) -> None:
        self.clock = KernelClock(compiler)
