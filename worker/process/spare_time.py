"""Work of a child between jobs: compiles kernels that are likely to be needed, and measures shapes for `auto`.

Runs in a separate thread. It has the device only while no job is claimed, and returns it as soon as one arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread

import structlog

from jobs.errors import DeviceFault, KernelUnavailable, StoreFull, StoreUnavailable
from jobs.fleet.measured import MeasuredShapes
from jobs.settings import AutoMeasures
from kernels.model.entry.config import ConfigError
from kernels.model.numerics import Problem
from kernels.selection.ahead import likely_products
from kernels.selection.candidates import Choice, NoKernelError
from worker.device.runner import Runner
from worker.process.device_loans import DeviceLoans, DeviceWanted
from worker.process.lease import EXIT_FAULT, end_process
from worker.product.auto import AutoChoices
from worker.product.probe import Probe, probe_for
from worker.product.shapes import AskedShape, shape_named

QUIET_S = 0.5  # without a job before work begins, so that bursts of products have priority
LOOK_EVERY_S = 5.0  # interval of reading others' measurements and requested shapes
MAX_OPEN = 256  # shapes asked for here that another worker began
STOP_S = 2.0  # for the last step to end: it may have a shape to put back

log = structlog.get_logger(__name__)


class SpareTime:
    """One per child. `end` ends the process; tests pass their own, and call `step` without the thread."""

    def __init__(
        self,
        runner: Runner,
        shared: MeasuredShapes,
        loans: DeviceLoans,
        mode: AutoMeasures,
        *,
        end: Callable[[int], None] = end_process,
    ) -> None:
        self.choices = AutoChoices(runner, on_new_shape=self._wake)
        self._runner, self._shared, self._loans, self._mode, self._end = runner, shared, loans, mode, end
        self._ahead: Iterator[tuple[Choice, Problem]] | None = None
        self._open: dict[str, AskedShape] = {}
        self._untold: tuple[str, str] | None = None  # a shape, and what was measured there: nothing of one to put back
        self._has_read = mode == "off"
        self._look_at = 0.0  # time.monotonic()
        self._work = Event()
        self._thread = Thread(target=self._run, name="spare time", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns the device, when the process ends."""
        self._loans.close()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _wake(self) -> None:
        self._work.set()

    def _run(self) -> None:
        while self._loans.wait_until_quiet(QUIET_S):
            self._work.clear()
            if not self._try_step():
                self._work.wait(LOOK_EVERY_S)

    def _try_step(self) -> bool:
        """Runs one step; returns whether there may be more to do. An error with one shape does not end the thread."""
        try:
            return self.step()
        except DeviceWanted:
            return True
        except (StoreUnavailable, StoreFull) as error:
            log.debug("the job store does not serve; measuring waits", reason=error.type)
        except (KernelUnavailable, NoKernelError, ConfigError) as error:
            log.warning("nothing could be prepared for a shape", reason=str(error))
        except DeviceFault as error:
            log.error("the device failed while nothing but a measurement ran", reason=error.detail)
            self._end(EXIT_FAULT)
        except Exception:
            log.exception("work between jobs broke off")
        return False

    def step(self) -> bool:
        """Does one piece of work; False if there was none."""
        if not self._has_read and time.monotonic() >= self._look_at:
            self._read()
        if (new := self.choices.next_new_shape()) is not None:
            try:
                self._attend(*new)
            except (StoreUnavailable, StoreFull):
                self.choices.examine_later(*new)
                raise
            return True
        if self._ahead is None:  # what was left out at the start is known by now
            self._ahead = likely_products(self._runner.device.traits)
        if (likely := next(self._ahead, None)) is not None:
            self._runner.compile_ahead([likely])
            return True
        return self._mode != "off" and time.monotonic() >= self._look_at and self._look()

    def _read(self) -> None:
        """Learns what others have measured. Where the store does not tell, all else goes on, and it is asked again."""
        self._look_at = time.monotonic() + LOOK_EVERY_S
        try:
            self.choices.learn(self._shared.all())
        except (StoreUnavailable, StoreFull) as error:
            log.warning("what others measured for auto cannot be read", reason=error.detail)
            return
        self._has_read, self._look_at = True, 0.0

    # ---- one shape ----
    def _attend(self, asked: AskedShape, is_measured: bool) -> None:
        """Adopts the best known choice for a shape, and measures the shape, or lists it to be measured, if in doubt."""
        self.choices.adopt_best(asked)
        if self._mode == "off" or not is_measured:
            return
        if (probe := probe_for(asked.problem, asked.accuracy, self._runner.device)) is None:
            return
        if self._mode == "idle":
            self._measure(asked, probe)
        elif not self._adopt({asked.name: asked}):
            self._shared.want([asked.name])
            self._leave_open(asked)

    def _measure(self, asked: AskedShape, probe: Probe) -> None:
        """Measures a shape, once for all workers; interrupted if a job arrives."""
        self._tell()
        with suppress(KernelUnavailable):  # the record of its case says so
            self._runner.compile_ahead(probe.products)
        if not self._shared.begin(asked.name):
            if not self._adopt({asked.name: asked}):
                self._leave_open(asked)
            return
        started = time.monotonic()
        try:
            with self._loans.spare():
                measured = probe.measure(self._runner, self._loans.check)
        except DeviceWanted:
            self._untold, self._look_at = (asked.name, ""), 0.0
            with suppress(StoreUnavailable, StoreFull):
                self._tell()
            raise
        if measured.wrong:
            log.error("kernels were wrong where they were measured for auto", shape=asked.name, kernels=measured.wrong)
        seconds = round(time.monotonic() - started, 3)
        log.info("measured a shape for auto", shape=asked.name, figures=bool(measured.entries), seconds=seconds)
        if measured:
            self._untold = asked.name, measured.text()
            self._learn(asked, measured.text())
            self._tell()

    def _tell(self) -> None:
        """Tells Redis what it was not told yet, as it did not serve then: else nobody would measure that shape."""
        if self._untold is None:
            return
        name, text = self._untold
        if text:
            self._shared.keep(name, text)
        else:
            self._shared.put_back(name)
        self._untold = None

    def _look(self) -> bool:
        """Reads what other workers have measured, and handles the most recently requested waiting shape."""
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._tell()
        self._adopt(dict(self._open))
        if self._mode == "asked" and not self._shared.is_asked():
            return False
        for name in self._shared.to_measure(1):
            self._look_at = 0.0
            if (found := self._probe_named(name)) is None:
                self._shared.begin(name)  # so that it is never examined again
            else:
                self._measure(*found)
            return True
        return False

    def _probe_named(self, name: str) -> tuple[AskedShape, Probe] | None:
        """A waiting shape and its probe; None if there is nothing to measure, or no kernel for such a shape."""
        if (asked := shape_named(name)) is None:
            return None
        with suppress(NoKernelError, ConfigError):
            probe = probe_for(asked.problem, asked.accuracy, self._runner.device)
            return None if probe is None else (asked, probe)
        return None

    def _adopt(self, asked: dict[str, AskedShape]) -> bool:
        """Adopts other workers' measurements of these shapes; returns whether there were any."""
        found = self._shared.of(list(asked))
        for name, text in found.items():
            self._learn(asked[name], text)
        return bool(found)

    def _learn(self, asked: AskedShape, text: str) -> None:
        self._open.pop(asked.name, None)
        self.choices.learn({asked.name: text})
        self.choices.adopt_best(asked)

    def _leave_open(self, asked: AskedShape) -> None:
        if len(self._open) >= MAX_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[asked.name] = asked
