"""The choices of `auto` for each shape: at first by tables and forecasts, later by measurements of that shape."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import Kernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose, choose_from
from kernels.selection.tuned import TABLES, TunedTable
from worker.device.runner import Runner
from worker.product.magnitudes import MeasuredMagnitudes
from worker.product.probe import table_of
from worker.product.shapes import AskedShape, read_measured

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
        choice = choose_from(
            self._tables(asked), problem, accuracy, self._runner.device.traits, self._compiled(problem)
        )
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
            traits, compiled = self._runner.device.traits, self._compiled(problem)
            known = choose_from(self._tables(asked), problem, accuracy, traits, compiled, kernels)
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
        problem, accuracy, traits = asked.problem, asked.accuracy, self._runner.device.traits
        if asked.name in self._measured:
            choice = choose_from(self._tables(asked), problem, accuracy, traits)
        else:
            choice = choose("auto", NO_CONFIG, problem, accuracy, traits)
        self._runner.make_ready(choice, problem)
        self._keep(asked.name, choice)

    def learn(self, measured: Mapping[str, str]) -> None:
        """Stores measurements by shape name, for the next first use of each shape; empty ones are ignored."""
        for name, text in measured.items():
            if text:
                self._measured[name] = text
        while len(self._measured) > KEPT:
            self._measured.pop(next(iter(self._measured)))

    def _tables(self, asked: AskedShape) -> Sequence[TunedTable]:
        text = self._measured.get(asked.name)
        measured = read_measured(text, asked) if text is not None else None
        return TABLES if measured is None else (table_of(measured.entries, self._runner.device),)

    def _compiled(self, problem: Problem) -> Callable[[Kernel, TileConfig], bool]:
        return lambda kernel, config: self._runner.is_compiled(Choice(kernel, config, ""), problem)

    def _keep(self, name: str, choice: Choice) -> None:
        with self._lock:
            if len(self._choices) >= KEPT and name not in self._choices:
                self._choices.pop(next(iter(self._choices)))
            self._choices[name] = choice
