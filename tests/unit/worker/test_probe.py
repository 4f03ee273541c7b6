"""What `auto` takes where kernels were measured at a shape that no table has, on a GPU that is simulated here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from jobs.errors import KernelUnavailable, OutOfDeviceMemory
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose, choose_from, contenders
from kernels.selection.nearby import nearby
from kernels.selection.tuned import TABLES, Entry
from tests.support.workers.simulated import Behaviour, SimulatedBench, SimulatedRunner, unhurried
from worker.device.bench import Bench, ProductErrors, Watched
from worker.process.device_loans import DeviceWanted
from worker.product import probe
from worker.product.probe import probe_for, table_of
from worker.product.shapes import AskedShape, read_measured, shape_named

Speed = Callable[[Case], float]  # microseconds of a launch
LIBRARY_ERROR = 1e-6
NEW = Problem(701, 903, 1203, "float32")  # which no table has, and where several kernels are likely


class Timed(SimulatedRunner):
    """A GPU on which each kernel takes its own time and has its own error."""

    def __init__(self, time_us: Speed, error: Speed = lambda _: LIBRARY_ERROR, **behaviour: object) -> None:
        self.cases: list[Case] = []
        super().__init__(Behaviour(time_us=lambda _: time_us(self.cases[-1]), on_prepare=self._prepared))
        for name, value in behaviour.items():
            setattr(self.behaviour, name, value)
        self._error = self.of_worst_row = error
        self.refused = ""

    def _prepared(self, case: Case) -> None:
        if case.kernel == self.refused:
            raise KernelUnavailable("not here")
        self.cases.append(case)

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        assert not alone, "operands kept for products stay"
        self.behaviour.benches += 1
        bench = SimulatedBench(problem, data, self.behaviour)
        bench.errors_vs_float64 = lambda: self._errors(self.cases[-1])  # type: ignore[method-assign]
        yield bench

    def _errors(self, case: Case) -> ProductErrors:
        return ProductErrors(self._error(case), self.of_worst_row(case))


def only(kernel: str, fast_us: float = 20.0, slow_us: float = 100.0, **config: int) -> Speed:
    """That kernel, in that config, is the fast one."""
    return lambda case: fast_us if case.kernel == kernel and config.items() <= case.config.items() else slow_us


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)


def nothing() -> None:
    """No job wants the device."""


def taken(runner: Timed, problem: Problem, accuracy: AccuracyName, check: Callable[[], None] = nothing) -> Choice:
    """Once what is worth it was measured there."""
    found, traits = probe_for(problem, accuracy, runner.device), runner.device.traits
    entries = found.measure(runner, check).entries if found is not None else ()
    if not entries:
        return choose("auto", NO_CONFIG, problem, accuracy, traits)
    return choose_from([table_of(entries, runner.device)], problem, accuracy, traits)


def test_there_is_a_doubt_at_the_shape_of_these_tests() -> None:
    likely = [one.point.kernel.name for one in contenders(NEW, "fp32", Timed(only("cublas")).device.traits)]
    assert {"cublas", "fp32_emulated"} <= set(likely)
    assert len(likely) <= 6


def test_the_fastest_there_is_accepted() -> None:
    runner = Timed(only("fp32_emulated"), lambda case: LIBRARY_ERROR * (1.0 if case.kernel == "cublas" else 0.9))
    chosen = taken(runner, NEW, "fp32")
    assert chosen.kernel.name == "fp32_emulated"
    assert chosen.why.startswith("auto: fp32_emulated was the fastest of ")
    assert " kernels probed here at 701×903×1203 (" in chosen.why and "5.00 times cublas" in chosen.why
    assert runner.behaviour.benches == 1
    assert {case.problem for case in runner.cases} == {NEW}


@pytest.mark.parametrize(("error", "expected"), [(1.0, "cublas_tuned"), (1.5, "cublas_tuned"), (0.98, "fp32_emulated")])
def test_what_is_less_exact_than_the_library_there_is_not_taken(error: float, expected: str) -> None:
    """Nor what is just as exact on these operands: on others it may be less so."""
    runner = Timed(only("fp32_emulated"), lambda case: LIBRARY_ERROR * (1.0 if case.kernel == "cublas" else error))
    assert taken(runner, NEW, "fp32").kernel.name == expected


def test_of_configs_that_are_as_exact_the_fastest_is_accepted() -> None:
    """With six products it is not as exact, with seven it is."""

    def error(case: Case) -> float:
        return LIBRARY_ERROR * (1.0 if case.kernel == "cublas" else 9.0 / case.config.get("min_products", 9) ** 2 * 4)

    runner = Timed(lambda case: 100.0 if case.kernel == "cublas" else 3.0 * case.config.get("min_products", 30), error)
    chosen = taken(runner, NEW, "fp32")
    assert (chosen.kernel.name, chosen.config["min_products"]) == ("fp32_emulated", 7)


def test_a_config_that_loses_a_row_is_not_as_exact() -> None:
    """However small its error is in the norm of the whole product."""

    def of_worst_row(case: Case) -> float:
        return LIBRARY_ERROR * (4.0 if case.config.get("min_products") == 6 else 0.5)

    runner = Timed(lambda case: 100.0 if case.kernel == "cublas" else 3.0 * case.config.get("min_products", 30))
    runner._error = lambda case: LIBRARY_ERROR * (1.0 if case.kernel == "cublas" else 0.5)
    runner.of_worst_row = lambda case: LIBRARY_ERROR if case.kernel == "cublas" else of_worst_row(case)
    chosen = taken(runner, NEW, "fp32")
    assert (chosen.kernel.name, chosen.config["min_products"]) == ("fp32_emulated", 7)


def test_a_kernel_is_tried_in_its_default_config_too() -> None:
    """As it is nearby, it was best at another shape."""
    runner = Timed(only("cublas"))
    problem = Problem(64, 379, 950, "float32")
    taken(runner, problem, "fp32")
    tried = [case.config for case in runner.cases if case.kernel == "cluster_split_k"]
    assert len(tried) > len(
        [one for one in contenders(problem, "fp32", runner.device.traits) if one.point.kernel.name == "cluster_split_k"]
    )


def test_what_is_preferred_without_figures_is_measured_besides() -> None:
    """No table has the library's TF32 near this shape, so nothing could be held against it."""
    problem = Problem(67, 61, 63, "float32", 900)
    runner = Timed(only("cublas"))
    assert choose("auto", NO_CONFIG, problem, "tf32", runner.device.traits).kernel.name == "cublas_tf32"
    assert "cublas_tf32" not in [one.point.kernel.name for one in contenders(problem, "tf32", runner.device.traits)]
    assert taken(runner, problem, "tf32").kernel.name == "cublas"
    assert "cublas_tf32" in {case.kernel for case in runner.cases}


def test_so_it_is_where_tables_say_that_another_is_faster() -> None:
    """float32 to bf16: TF32 of ours leads, and its baseline is the library's TF32."""
    problem = Problem(611, 1407, 511, "float32")
    runner = Timed(only("hopper_tf32"))
    chosen = taken(runner, problem, "bf16")
    assert chosen.kernel.name == "hopper_tf32" and "probed here" in chosen.why
    assert "cublas_bf16" in {case.kernel for case in runner.cases}


def test_what_tables_would_take_is_measured_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is likely may be less exact than the library there."""
    runner = Timed(only("hopper_fp32", 50.0), lambda case: LIBRARY_ERROR * (1.0 + ("min_products" in case.config)))
    likely = [one for one in contenders(NEW, "fp32", runner.device.traits) if "min_products" in one.point.config]
    kernel = BY_NAME["hopper_fp32"]
    expected = Choice(kernel, kernel.resolve_config(NO_CONFIG, NEW, runner.device.traits), "by tables")
    monkeypatch.setattr(probe, "contenders", lambda *_: likely)
    monkeypatch.setattr(probe, "choose", lambda *_: expected)
    assert taken(runner, NEW, "fp32").kernel is kernel


def test_far_from_all_that_was_measured_it_is_settled_by_measuring_too() -> None:
    """What was fastest at larger products is worth a try on a thin one."""
    problem = Problem(3, 203, 4, "bfloat16")
    runner = Timed(only("cublas_tuned"))
    assert nearby(problem, "bf16", runner.device.traits) is None
    assert choose("auto", NO_CONFIG, problem, "bf16", runner.device.traits).kernel.name == "cublas"
    assert taken(runner, problem, "bf16").kernel.name == "cublas_tuned"


@pytest.mark.parametrize("what", ["contended", "throttled", "refused"])
def test_where_measuring_says_nothing_the_tables_decide(what: str) -> None:
    watched = Watched(contended=what == "contended", throttled=what == "throttled")
    runner = Timed(only("fp32_emulated"), lambda _: 0.0, watched=watched)
    runner.refused = "cublas" if what == "refused" else ""
    assert taken(runner, NEW, "fp32") == choose("auto", NO_CONFIG, NEW, "fp32", runner.device.traits)
    assert runner.behaviour.benches == 1


def test_where_what_is_preferred_cannot_be_measured_the_tables_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """int32, which the library does not multiply: no baseline is missing then."""
    runner = Timed(only("warp_tiled"), watched=Watched(contended=True))
    likely = contenders(Problem(1100, 900, 600, "int32"), "exact", runner.device.traits)
    assert {"pipelined", "warp_tiled"} <= {one.point.kernel.name for one in likely}
    small = Problem(64, 64, 64, "int32")
    kernel = BY_NAME["warp_tiled"]
    expected = Choice(kernel, kernel.resolve_config(NO_CONFIG, small, runner.device.traits), "by tables")
    monkeypatch.setattr(probe, "contenders", lambda *_: likely)
    monkeypatch.setattr(probe, "choose", lambda *_: expected)
    asked = probe_for(small, "exact", runner.device)
    assert asked is not None and not asked.measure(runner, nothing)
    runner.behaviour.watched = Watched()
    assert asked.measure(runner, nothing)


def recorded() -> Entry:
    return next(
        one
        for table in TABLES
        for one in table.entries
        if table.device == "NVIDIA H200" and one.dtype == "float32" and 200 < min(one.shape[:3]) < 400
    )


@pytest.mark.parametrize(
    "problem",
    [
        recorded().problem,
        Problem(30_001, 30_001, 30_001, "float32"),
        Problem(9_001, 9_001, 9_001, "float32"),
        Problem(64, 64, 64, "int32"),
        Problem(1000, 1000, 0, "float32"),
        Problem(0, 999, 999, "float32"),
        Problem(701, 701, 1203, "float32", transpose_b=True, symmetric=True),
    ],
    ids=["measured", "long", "long for a job", "of a type that was not measured", "empty", "no rows", "symmetric"],
)
def test_there_is_no_probe_without_a_doubt_or_without_the_time_to_settle_it(problem: Problem) -> None:
    device = Timed(only("cublas")).device
    assert probe_for(problem, "fp32" if problem.dtype == "float32" else "exact", device) is None
    assert probe_for(NEW, "fp32", device) is not None


def test_there_is_no_probe_where_only_what_is_preferred_is_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Timed(only("cublas")).device
    alone = [one for one in contenders(NEW, "fp32", device.traits) if one.point.kernel.name == "cublas"]
    monkeypatch.setattr(probe, "contenders", lambda *_: alone)
    monkeypatch.setattr(probe, "choose", lambda *_: Choice(BY_NAME["cublas"], alone[0].point.config, "by tables"))
    assert len(alone) == 1 and probe_for(NEW, "fp32", device) is None


def test_where_a_job_arrives_it_ends() -> None:
    def wanted() -> None:
        raise DeviceWanted

    runner = Timed(only("fp32_emulated"), lambda _: 0.0)
    with pytest.raises(DeviceWanted):
        taken(runner, NEW, "fp32", wanted)
    assert taken(runner, NEW, "fp32").kernel.name in ("fp32_emulated", "cublas")
    assert runner.behaviour.benches == 2


def test_a_device_without_memory_for_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutOfDeviceMemory

    runner = Timed(only("fp32_emulated"), lambda _: 0.0)
    monkeypatch.setattr(runner.behaviour, "on_prepare", full)
    assert taken(runner, NEW, "fp32") == choose("auto", NO_CONFIG, NEW, "fp32", runner.device.traits)


def test_what_has_to_be_compiled_is_known_before() -> None:
    runner = Timed(only("cublas"))
    found = probe_for(NEW, "fp32", runner.device)
    assert found is not None
    compiled = {(choice.kernel.name, tuple(choice.config.items())) for choice, _ in found.products}
    found.measure(runner, nothing)
    assert compiled == {(case.kernel, tuple(case.config.items())) for case in runner.cases}


def test_figures_survive_as_a_text() -> None:
    runner = Timed(only("fp32_emulated"), lambda case: LIBRARY_ERROR * (1.0 if case.kernel == "cublas" else 0.9))
    found = probe_for(NEW, "fp32", runner.device)
    assert found is not None
    measured = found.measure(runner, nothing)
    assert len(measured.entries[0].ranking) > 1 and measured.entries[0].trials
    assert read_measured(measured.text(), AskedShape(NEW, "fp32")) == measured
    assert read_measured(measured.text().replace("gflops", "speed"), AskedShape(NEW, "fp32")) is None


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (NEW, "float32 fp32 701x903x1203x1"),
        (Problem.in_batch(4, 5, 6, "float32", 7), "float32 fp32 4x5x6x7"),
        (Problem(4, 5, 6, "float32", transpose_a=True, transpose_b=True), "float32 fp32 4x5x6x1 at bt"),
    ],
)
def test_a_shape_has_a_name_that_leads_back_to_it(problem: Problem, name: str) -> None:
    asked = AskedShape(problem, "fp32")
    assert asked.name == name
    assert shape_named(name) == (None if problem.transpose_a else asked)
    assert shape_named(name.replace("float32", "float31")) is None and shape_named("?") is None
