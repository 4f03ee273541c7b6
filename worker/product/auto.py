"""The choices of `auto` for each shape: at first by tables and forecasts, later by measurements of that shape."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import Kernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice, candidates
from kernels.selection.choose import IsCompiled, choose, choose_from
from kernels.selection.tuned import TABLES, TunedTable
from worker.device.runner import Runner
from worker.product.magnitudes import MeasuredMagnitudes
from worker.product.probe import table_of
from worker.product.shapes import AskedShape, Measured, read_measured

KEPT = 4096  # shapes
MAX_NEW_SHAPES = 256  # new shapes that wait to be examined; the oldest are dropped


class AutoChoices:
    """The choices of one process. `choose` never waits for Redis, nor for the compiler if any suitable kernel is
    compiled. The other methods are for work between jobs.
    """

    def __init__(self, runner: Runner, *, on_new_shape: Callable[[], None] = lambda: None) -> None:
        """`on_new_shape` is called when a shape is requested for the first time."""
        self._runner = runner
        self._on_new_shape = on_new_shape
        self._lock = Lock()
        self._choices: dict[str, Choice] = {}
        self._new_shapes: deque[tuple[AskedShape, bool]] = deque(maxlen=MAX_NEW_SHAPES)
        self.magnitudes = MeasuredMagnitudes()
        self._measured: dict[str, str] = {}  # texts, by the name of a shape

    def choose(self, problem: Problem, accuracy: AccuracyName, *, is_measured: bool = True) -> Choice:
        """`choose("auto", …)`, among kernels that are compiled. `is_measured`: whether the shape is worth measuring.
        Raises NoKernelError, ConfigError."""
        asked = AskedShape(problem, accuracy)
        name = asked.name
        if (known := self._choices.get(name)) is not None:
            return known
        choice = self._choice(asked, self._compiled(problem))
        self._keep(name, choice)
        self._new_shapes.append((asked, is_measured))
        self._on_new_shape()
        return choice

    def choose_among(self, kernels: Sequence[Kernel], problem: Problem, accuracy: AccuracyName) -> Choice:
        """Chooses among these kernels, by the same tables and measurements; `accuracy` is the loosest of their classes.
        Raises NoKernelError, ConfigError.
        """
        asked = AskedShape(problem, accuracy)
        name = f"{asked.name} of {' '.join(kernel.name for kernel in kernels)}"
        if (known := self._choices.get(name)) is None:
            known = self._choice(asked, self._compiled(problem), kernels)
            self._keep(name, known)
        return known

    # ---- between jobs ----
    def next_new_shape(self) -> tuple[AskedShape, bool] | None:
        """The most recently requested shape that has not been examined, and whether it is worth measuring."""
        return self._new_shapes.pop() if self._new_shapes else None

    def examine_later(self, asked: AskedShape, is_measured: bool) -> None:
        """Puts a shape back, behind all others that wait; it is dropped if there are too many."""
        if len(self._new_shapes) < MAX_NEW_SHAPES:
            self._new_shapes.appendleft((asked, is_measured))

    def adopt_best(self, asked: AskedShape) -> None:
        """Compiles the best choice that is known for a shape, and takes it from now on. Raises KernelUnavailable,
        NoKernelError, ConfigError.
        """
        if asked.name in self._measured:
            choice = self._choice(asked, lambda _kernel, _config: True)
        else:
            choice = choose("auto", NO_CONFIG, asked.problem, asked.accuracy, self._runner.device.traits)
        self._runner.make_ready(choice, asked.problem)
        self._keep(asked.name, choice)

    def learn(self, measured: Mapping[str, str]) -> None:
        """Stores measurements by shape name, for the next first use of each shape; empty ones are ignored."""
        for name, text in measured.items():
            if text:
                self._measured[name] = text
        while len(self._measured) > KEPT:
            self._measured.pop(next(iter(self._measured)))

    def _choice(self, asked: AskedShape, compiled: IsCompiled, among: Sequence[Kernel] | None = None) -> Choice:
        """By what was measured at the shape, or by the tables. Kernels whose products were wrong there are left out as
        long as any others are left."""
        text, device = self._measured.get(asked.name), self._runner.device
        measured = (read_measured(text, asked) if text is not None else None) or Measured(())
        tables: Sequence[TunedTable] = (table_of(measured.entries, device),) if measured.entries else TABLES
        if measured.wrong:
            found = candidates(asked.problem, asked.accuracy, device.traits)
            fit = [kernel for kernel in found if kernel.is_everyday] if among is None else among
            among = [kernel for kernel in fit if kernel.name not in measured.wrong] or fit
        return choose_from(tables, asked.problem, asked.accuracy, device.traits, compiled, among)

    def _compiled(self, problem: Problem) -> IsCompiled:
        return lambda kernel, config: self._runner.is_compiled(Choice(kernel, config, ""), problem)

    def _keep(self, name: str, choice: Choice) -> None:
        with self._lock:
            if len(self._choices) >= KEPT and name not in self._choices:
                self._choices.pop(next(iter(self._choices)))
            self._choices[name] = choice
