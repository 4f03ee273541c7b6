"""One case on a device that is not there: what is timed, what is thrown away, what becomes of what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CaseRecord, DeviceState, Samples
from jobs.errors import DeviceFault, JobFailed, KernelUnavailable, OutOfDeviceMemory, StaleAttempt
from kernels.model.numerics import Problem
from tests.support.workers.simulated import DEFAULT_CLOCK_MHZ, Behaviour, SimulatedRunner, case_run_of, spec_of
from worker.benchmark.case_run import CaseRun
from worker.benchmark.in_process import InProcess
from worker.device.bench import Watched


def measured(behaviour: Behaviour, case_run: CaseRun | None = None) -> tuple[CaseRecord, Samples]:
    with InProcess(SimulatedRunner(behaviour)) as measurer:
        return measurer.measure(case_run or case_run_of(), lambda: None)


def raises(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_record_is_whole() -> None:
    behaviour = Behaviour(
        time_us=lambda number: 200.0 + number % 2,
        watched=Watched(DeviceState(mem_clock_mhz=3201.0), contended=True, power_limited=True),
    )
    record, samples = measured(behaviour)
    assert record.status == "ok" and record.reason is None
    assert record.kernel_ms is not None and record.kernel_ms == pytest.approx(0.2005, abs=6e-4)
    assert record.gflops == pytest.approx(2 * 32**3 / record.kernel_ms / 1e6)
    assert record.time_us is not None and record.time_us.min == 200 and record.time_us.max == 201
    assert record.samples == len(samples.time_us) == len(samples.sm_clock_mhz)
    assert (record.inner_reps, record.discarded, record.stop_reason) == (1, 0, "precise")
    assert record.cpu_launch_us == 3.0 and record.compile_ms == 1.0 and record.launch.registers == 64
    assert record.before is not None and record.before.passed and record.after is not None and record.after.passed
    assert record.error_vs_float64 is not None and record.error_vs_float64 < 1e-6
    assert record.state.sm_clock_mhz == record.state.sm_clock_min_mhz == DEFAULT_CLOCK_MHZ
    assert record.state.mem_clock_mhz == 3201.0
    assert record.contended and record.power_limited and not record.throttled
    assert (record.flops, record.bytes_min) == (2 * 32**3, 3 * 4 * 32**2)


def test_short_launches_share_a_sample() -> None:
    record, _ = measured(Behaviour(time_us=lambda _: 7.0))
    assert record.inner_reps == 15  # 105 µs
    assert record.time_us is not None and record.time_us.median == 7.0


def test_samples_are_cold_and_warm_up_is_not() -> None:
    behaviour = Behaviour()
    measured(behaviour)
    caches = [cache for _, _, cache in behaviour.samples]
    first_cold = caches.index("cold")
    assert set(caches[:first_cold]) == {"warm"} and set(caches[first_cold:]) == {"cold"}


def test_a_wrong_product_has_no_figures() -> None:
    record, samples = measured(Behaviour(wrong_from=0))
    assert record.status == "incorrect"
    assert record.reason is not None and record.reason.startswith("The product did not pass its check: its residual is")
    assert (record.gflops, record.kernel_ms, record.time_us) == (None, None, None)
    assert record.before is not None and not record.before.passed
    assert samples == Samples()


def test_a_product_that_goes_wrong_while_it_is_timed_has_no_figures() -> None:
    record, _ = measured(Behaviour(wrong_from=5))
    assert record.status == "incorrect"
    assert record.reason is not None and record.reason.startswith("While it was timed")
    assert record.before is not None and record.before.passed and record.after is not None and not record.after.passed


def test_a_kernel_that_computes_nothing_while_it_is_timed_is_found_out() -> None:
    """The product of the warm-up is right, and poisoned before the first sample."""
    record, _ = measured(Behaviour(lazy_from=2))
    assert record.status == "incorrect"


def test_every_element_is_looked_at_where_that_is_asked_for() -> None:
    record, _ = measured(Behaviour(), case_run_of(spec_of(verify="full")))
    assert record.status == "ok" and record.before is not None and record.before.mode == "full"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32"])
def test_integers_are_exact(dtype: str) -> None:
    spec = spec_of(verify="exact", data={"distribution": "integers"}, dtypes=[dtype])
    problem = Problem(32, 32, 32, dtype)  # type: ignore[arg-type]
    record, _ = measured(Behaviour(), case_run_of(spec, problem=problem))
    assert record.status == "ok", record.reason
    assert record.after is not None and record.after.residual is not None
    assert (record.after.residual == 0) == (dtype != "bfloat16")  # sums of 32 products pass its 256
    assert record.after.mode == ("exact" if dtype != "bfloat16" else "freivalds")


def test_slow_clocks_are_thrown_away() -> None:
    behaviour = Behaviour(clock_mhz=lambda number: 700.0 if number == 5 else 900.0)
    record, samples = measured(behaviour)
    assert (record.status, record.discarded, record.throttled) == ("ok", 1, False)
    assert set(samples.sm_clock_mhz) == {900.0}


def test_a_clock_that_the_power_cap_holds_down_counts() -> None:
    behaviour = Behaviour(clock_mhz=lambda number: 700.0 if number == 5 else 900.0, power_capped=True)
    record, samples = measured(behaviour)
    assert (record.status, record.discarded, record.throttled) == ("ok", 0, False)
    assert 700.0 in samples.sm_clock_mhz


def test_many_thrown_away_are_a_throttled_device() -> None:
    behaviour = Behaviour(clock_mhz=lambda number: 700.0 if number % 3 == 0 else 900.0)
    record, _ = measured(behaviour)
    assert record.status == "ok" and record.throttled


def test_a_clock_that_never_recovers_runs_out_of_time() -> None:
    spec = spec_of(timing={"timeout_s": 0.2, "warmup_ms": 0})
    record, _ = measured(Behaviour(clock_mhz=lambda _: 100.0), case_run_of(spec))
    assert record.status == "timeout" and record.gflops is None and record.throttled
    assert record.reason is not None and "the clock was far below its default" in record.reason


def test_above_the_roof_is_implausible() -> None:
    problem = Problem(512, 512, 512, "float32")
    record, samples = measured(Behaviour(time_us=lambda _: 4.0), case_run_of(problem=problem))
    assert record.status == "implausible"
    assert record.reason == "67109 GFLOPS are more than the 60000 that the device can do."
    assert record.gflops is not None and samples.time_us


@pytest.mark.parametrize(
    ("where", "error", "status"),
    [
        ("on_prepare", KernelUnavailable("naive.cu does not compile."), "compile_error"),
        ("on_sample", KernelUnavailable("cuBLAS does not take it."), "launch_error"),
        ("on_sample", JobFailed("The spin kernel gave up."), "launch_error"),
        ("on_prepare", OutOfDeviceMemory("No room."), "oom"),
        ("on_sample", MemoryError(), "oom"),
    ],
)
def test_what_goes_wrong_with_a_case_is_its_record(where: str, error: Exception, status: str) -> None:
    record, samples = measured(replace(Behaviour(), **{where: raises(error)}))  # type: ignore[arg-type]
    assert record.status == status and record.reason and record.gflops is None
    assert samples == Samples()


def test_a_fault_and_a_lost_job_end_the_measuring() -> None:
    with pytest.raises(DeviceFault):
        measured(Behaviour(on_sample=raises(DeviceFault())))
    with InProcess(SimulatedRunner(Behaviour())) as measurer, pytest.raises(StaleAttempt):
        measurer.measure(case_run_of(), raises(StaleAttempt()))


def test_operands_are_made_once_for_a_problem_and_anew_after_an_error() -> None:
    behaviour = Behaviour()
    with InProcess(SimulatedRunner(behaviour)) as measurer:
        measurer.measure(case_run_of(), lambda: None)
        measurer.measure(case_run_of(kernel="shared_tiled"), lambda: None)
        assert behaviour.benches == 1
        behaviour.on_sample = raises(OutOfDeviceMemory())
        measurer.measure(case_run_of(), lambda: None)
        behaviour.on_sample = no_trouble
        measurer.measure(case_run_of(), lambda: None)
        assert behaviour.benches == 2
        measurer.measure(case_run_of(problem=Problem(16, 16, 16, "float32")), lambda: None)
        assert behaviour.benches == 3


def no_trouble(case: Case, number: int) -> None:
    """What most samples meet."""


def test_float64_errors_are_taken_once() -> None:
    record, _ = measured(Behaviour(), case_run_of(round_number=1))
    assert record.round == 1 and record.error_vs_float64 is None


@pytest.mark.parametrize("time_us", [0.0, -5.0, float("nan"), float("inf")])
@pytest.mark.parametrize("after", [0, 5])
def test_a_clock_that_stands_still_or_goes_back_gives_no_figures(time_us: float, after: int) -> None:
    """In the warm-up, where a short launch may seem to take no time, or while it is sampled."""
    record, _ = measured(Behaviour(time_us=lambda number: time_us if number >= after else 100.0))
    assert (record.status, record.gflops) == ("launch_error", None)
    assert record.reason is not None and record.reason.startswith("The device's clock counted ")
