"""A kernel whose product is wrong where it is measured for `auto` is not taken there, whatever tables say of it; one
that does not compile is not measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import Problem
from kernels.selection.choose import choose
from tests.support.workers.simulated import SimulatedBench, SimulatedRunner, unhurried
from tests.unit.worker.test_probe import NEW, Timed, nothing, only
from worker.device.bench import Bench
from worker.product.auto import AutoChoices
from worker.product.probe import probe_for
from worker.product.shapes import AskedShape, Measured, read_measured

ASKED = AskedShape(NEW, "fp32")


class Faulty(Timed):
    """Some kernels' products are wrong."""

    def __init__(self, *wrong: str, fast: str = "cublas") -> None:
        super().__init__(only(fast, fast_us=30.0))
        self.wrong = wrong

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        with super().bench(problem, data, alone=alone) as bench:
            assert isinstance(bench, SimulatedBench)
            right = bench.multiply

            def multiply() -> None:
                right()
                bench.c[0, 0] += 1000 * (self.cases[-1].kernel in self.wrong)

            bench.multiply = multiply  # type: ignore[method-assign]
            yield bench


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)


def measured_on(runner: Faulty) -> Measured:
    probe = probe_for(NEW, "fp32", runner.device)
    assert probe is not None
    return probe.measure(runner, nothing)


def auto_with(measured: Measured) -> AutoChoices:
    choices = AutoChoices(SimulatedRunner())
    choices.learn({ASKED.name: measured.text()})
    return choices


def by_tables() -> str:
    return choose("auto", NO_CONFIG, NEW, "fp32", SimulatedRunner().device.traits).kernel.name


def test_what_tables_take_is_not_taken_where_it_is_wrong() -> None:
    measured = measured_on(Faulty(by_tables()))
    assert measured.wrong == (by_tables(),) and by_tables() not in {row.kernel for row in measured.entries[0].ranking}
    assert read_measured(measured.text(), ASKED) == measured
    assert auto_with(measured).choose(NEW, "fp32").kernel.name != by_tables()


def test_nor_where_nothing_else_could_be_measured() -> None:
    """Then tables decide among the others."""
    runner = Faulty(by_tables())
    runner.refused = "cublas"
    measured = measured_on(runner)
    assert measured and (measured.entries, measured.wrong) == ((), (by_tables(),))
    choices = auto_with(measured)
    assert choices.choose(NEW, "fp32").kernel.name != by_tables()
    choices.adopt_best(ASKED)
    assert choices.choose(NEW, "fp32").kernel.name != by_tables()
    among = [BY_NAME[by_tables()], BY_NAME["pipelined"]]
    assert choices.choose_among(among, NEW, "fp32").kernel.name == "pipelined"


def test_the_library_is_not_taken_where_it_is_wrong() -> None:
    """Nor what would be preferred to all that was measured, without figures."""
    measured = measured_on(Faulty("cublas", fast="cublas_tuned"))
    assert measured.wrong == ("cublas",)
    assert auto_with(measured).choose(NEW, "fp32").kernel.name != "cublas"


def test_a_kernel_that_is_wrong_once_is_not_left_out_by_all_workers() -> None:
    """Nor counted: it may be the device that errs."""
    runner = Faulty("hopper_fp32")
    with_case = runner.behaviour.on_prepare

    def prepared(case: Case) -> None:
        with_case(case)
        if [each.kernel for each in runner.cases].count("hopper_fp32") > 1:
            runner.wrong = ()

    runner.behaviour.on_prepare = prepared
    measured = measured_on(runner)
    assert measured.wrong == () and "hopper_fp32" not in {row.kernel for row in measured.entries[0].ranking}


def test_where_all_are_wrong_some_kernel_is_taken() -> None:
    """Its products are checked as any others."""
    names = tuple(BY_NAME)
    assert auto_with(Measured((), names)).choose(NEW, "fp32").kernel.name == by_tables()


def test_other_shapes_are_not_concerned() -> None:
    choices = auto_with(Measured((), (by_tables(),)))
    assert choices.choose(Problem(701, 903, 1203, "float32"), "fp32").kernel.name != by_tables()
    other = Problem(703, 905, 1205, "float32")
    expected = choose("auto", NO_CONFIG, other, "fp32", SimulatedRunner().device.traits)
    assert choices.choose(other, "fp32").kernel is expected.kernel


def test_nothing_is_compiled_while_a_job_would_have_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a kernel did not compile before."""
    runner = Timed(only("cublas", fast_us=30.0))
    monkeypatch.setattr(runner, "is_compiled", lambda choice, _: choice.kernel.name == "hopper_fp32")
    probe = probe_for(NEW, "fp32", runner.device)
    assert probe is not None and "fp32_emulated" in {choice.kernel.name for choice, _ in probe.products}
    assert probe.measure(runner, nothing).entries
    assert {case.kernel for case in runner.cases} == {"cublas", "cublas_tuned", "hopper_fp32"}
