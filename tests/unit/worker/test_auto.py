"""What `auto` takes at once, and what it takes later."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose
from tests.support.kernels.tuned import entry, row
from tests.support.workers.simulated import SimulatedRunner
from worker.product import auto
from worker.product.auto import AutoChoices
from worker.product.shapes import AskedShape, Measured

NEW = Problem(701, 903, 1203, "float32")
LARGE = Problem(3001, 3003, 3005, "float32")
SQUARE = Problem(509, 509, 509, "float32")
MEASURED = Measured((entry(509, rows=[row("shared_tiled", 300.0, {"tile": 8}), row("cublas", 100.0)]),)).text()


class Lazy(SimulatedRunner):
    """A GPU for which nothing is compiled until it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []

    def compile_ahead(self, products: Iterable[tuple[Choice, Problem]]) -> None:
        self.compiled += [choice.kernel.name for choice, _ in products]

    def is_compiled(self, choice: Choice, problem: Problem) -> bool:
        return isinstance(choice.kernel, LibraryKernel) or choice.kernel.name in self.compiled


def test_a_caller_does_not_wait_for_the_compiler() -> None:
    runner = Lazy()
    choices = AutoChoices(runner)
    best = choose("auto", NO_CONFIG, LARGE, "fp32", runner.device.traits)
    assert not isinstance(best.kernel, LibraryKernel)
    assert isinstance(choices.choose(LARGE, "fp32").kernel, LibraryKernel)
    assert runner.compiled == []
    assert choices.next_new_shape() == (AskedShape(LARGE, "fp32"), True) and choices.next_new_shape() is None
    choices.adopt_best(AskedShape(LARGE, "fp32"))
    assert runner.compiled == [best.kernel.name]
    assert choices.choose(LARGE, "fp32") == best
    assert choices.next_new_shape() is None, "it is known by now"


def test_what_was_measured_counts_once_it_is_adopted() -> None:
    runner = Lazy()
    choices = AutoChoices(runner)
    first = choices.choose(SQUARE, "fp32")
    choices.learn({"float32 fp32 509x509x509x1": MEASURED, "float32 fp32 510x510x510x1": ""})
    assert choices.choose(SQUARE, "fp32") is first
    choices.adopt_best(AskedShape(SQUARE, "fp32"))
    assert choices.choose(SQUARE, "fp32").kernel.name == "shared_tiled"
    assert "probed here at 509×509×509" in choices.choose(SQUARE, "fp32").why


def test_what_was_measured_before_counts_from_the_first_product_on() -> None:
    """Of what is compiled."""
    runner = Lazy()
    choices = AutoChoices(runner)
    choices.learn({"float32 fp32 509x509x509x1": MEASURED})
    found = choices.choose(SQUARE, "fp32")
    assert found.kernel.name == "cublas" and "shared_tiled goes before it" in found.why
    runner.compiled.append("shared_tiled")
    other = AutoChoices(runner)
    other.learn({"float32 fp32 509x509x509x1": MEASURED})
    assert other.choose(SQUARE, "fp32").kernel.name == "shared_tiled"


def test_what_cannot_be_read_is_left_to_the_tables() -> None:
    choices = AutoChoices(Lazy())
    choices.learn({"float32 fp32 509x509x509x1": "[]"})
    assert "probed" not in choices.choose(SQUARE, "fp32").why


def test_whoever_works_between_jobs_is_woken_once_a_shape() -> None:
    woken: list[int] = []
    choices = AutoChoices(Lazy(), on_new_shape=lambda: woken.append(1))
    for problem in (NEW, SQUARE, NEW):
        choices.choose(problem, "fp32")
    assert len(woken) == 2


def test_the_oldest_shapes_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "KEPT", 2)
    choices = AutoChoices(Lazy())
    shapes = [Problem(701, 903, 1203 + more, "float32") for more in range(3)]
    first = [choices.choose(problem, "fp32") for problem in shapes]
    again = [choices.choose(problem, "fp32") for problem in (shapes[2], shapes[1], shapes[0])]
    assert again[0] is first[2] and again[1] is first[1] and again[2] is not first[0]


def test_a_product_without_a_kernel_is_an_error() -> None:
    choices = AutoChoices(Lazy())
    with pytest.raises(NoKernelError):
        choices.choose(Problem(8, 8, 8, "float32"), "exact")
    assert choices.next_new_shape() is None
