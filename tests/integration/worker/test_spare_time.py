"""What a child does between jobs, on a simulated GPU and a real Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event, Thread

import pytest
import redis

from jobs.benchmarks.cases import Case
from jobs.benchmarks.spec import DataSpec
from jobs.errors import DeviceFault
from jobs.fleet.measured import MeasuredShapes
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import AutoMeasures
from kernels.model.numerics import Problem
from kernels.selection.choose import choose
from tests.support.ledger.ledgers import settings_for
from tests.support.workers.simulated import SimulatedRunner, unhurried
from worker.device.bench import Bench, ProductErrors, Watched
from worker.device.measured_model import measured_model
from worker.process import spare_time
from worker.process.device_loans import DeviceLoans, DeviceWanted
from worker.process.lease import EXIT_FAULT
from worker.process.spare_time import SpareTime

NEW = Problem(701, 903, 1203, "float32")
NAME = "float32 fp32 701x903x1203x1"
DEADLINE_S = 60.0


@cache
def by_tables() -> str:
    """What the shipped tables alone choose: they are read by the first test that asks."""
    return choose("auto", {}, NEW, "fp32", SimulatedRunner().device.traits).kernel.name


class Gpu(SimulatedRunner):
    """`fp32_emulated` is fast and exact; `on_sample` is told of each sample."""

    def __init__(self, on_sample: Callable[[Case, int], None] = lambda *_: None) -> None:
        super().__init__()
        self.case: Case | None = None
        self.behaviour.on_prepare = self._prepared
        self.behaviour.on_sample = on_sample
        self.behaviour.time_us = lambda _: 20.0 if self._is_emulated else 100.0

    def _prepared(self, case: Case) -> None:
        self.case = case

    @property
    def _is_emulated(self) -> bool:
        return self.case is not None and self.case.kernel == "fp32_emulated"

    @contextmanager
    def bench(self, problem: Problem, data: DataSpec, *, alone: bool = True) -> Iterator[Bench]:
        with super().bench(problem, data, alone=alone) as bench:
            errors = lambda: ProductErrors(*2 * [5e-7 if self._is_emulated else 1e-6])  # noqa: E731
            bench.errors_vs_float64 = errors  # type: ignore[method-assign]
            yield bench


class Worker:
    """What a child has for its spare time; without its thread. `ends` are the codes that it would end with."""

    def __init__(self, client: redis.Redis, prefix: str, mode: AutoMeasures = "idle", gpu: Gpu | None = None) -> None:
        self.gpu = gpu or Gpu()
        self.loans = DeviceLoans()
        self.shared = MeasuredShapes(client, prefix=prefix, model=measured_model(self.gpu.device))
        self.ends: list[int] = []
        self.spare_time = SpareTime(self.gpu, self.shared, self.loans, mode, end=self.ends.append)
        self.spare_time._ahead = iter(())

    def taken(self, problem: Problem = NEW) -> str:
        return self.spare_time.choices.choose(problem, "fp32").kernel.name

    def work(self) -> None:
        """All there is."""
        while self.spare_time.step():
            pass


@pytest.fixture
def worker(valkey: EmbeddedServer, key_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Makes workers on the same model of device."""
    unhurried(monkeypatch)
    with connect(settings_for(valkey, key_prefix)) as client:
        yield lambda *told: Worker(client, key_prefix, *told)


def test_a_shape_is_measured_between_jobs_and_then_taken_by_what_was_found(worker: Callable[..., Worker]) -> None:
    one = worker()
    assert one.taken() == by_tables() and one.gpu.behaviour.benches == 0
    one.work()
    assert one.taken() == "fp32_emulated" and one.gpu.behaviour.benches == 1
    one.work()
    assert one.gpu.behaviour.benches == 1


def test_another_worker_takes_what_was_found_without_measuring(worker: Callable[..., Worker]) -> None:
    """One that starts later from its first product on; one that met the shape before once it looks."""
    one, before = worker(), worker()
    before.taken()
    one.taken()
    one.work()
    before.work()
    later = worker()
    later.work()
    assert before.taken() == later.taken() == "fp32_emulated"
    assert before.gpu.behaviour.benches == later.gpu.behaviour.benches == 0


def test_what_another_worker_has_begun_is_taken_up_when_it_is_done(worker: Callable[..., Worker]) -> None:
    one, other = worker(), worker()
    assert other.shared.begin(NAME)
    one.taken()
    one.work()
    assert (one.taken(), one.gpu.behaviour.benches) == (by_tables(), 0)
    other.taken(Problem(703, 905, 1205, "float32"))
    other.work()
    text = other.shared.all()["float32 fp32 703x905x1205x1"]
    other.shared.keep(NAME, text.replace('"m":703,"n":905,"k":1205', '"m":701,"n":903,"k":1203'))
    one.spare_time._look_at = 0.0
    one.work()
    assert (one.taken(), one.gpu.behaviour.benches) == ("fp32_emulated", 0)


def test_a_job_that_arrives_gets_the_device_after_one_sample(worker: Callable[..., Worker]) -> None:
    """And the shape is measured later."""
    sampled, ran, samples = Event(), Event(), []

    def on_sample(_case: Case, number: int) -> None:
        samples.append(number)
        if len(samples) == 3:
            sampled.set()
            arrived.wait(DEADLINE_S)

    one = worker("idle", Gpu(on_sample))
    arrived = Event()

    def job() -> None:
        assert sampled.wait(DEADLINE_S)
        while True:  # until the job below is counted
            try:
                one.loans.check()
            except DeviceWanted:
                arrived.set()
                return

    def run() -> None:
        assert sampled.wait(DEADLINE_S)
        with one.loans.job():
            ran.set()

    threads = [Thread(target=job), Thread(target=run)]
    for thread in threads:
        thread.start()
    one.taken()
    with pytest.raises(DeviceWanted):
        one.work()
    assert ran.wait(DEADLINE_S)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(samples) == 3, "nothing was launched once the job was there"
    assert one.shared.to_measure(9) == [NAME] and one.shared.all() == {}
    one.work()
    assert one.taken() == "fp32_emulated" and one.shared.to_measure(9) == []


def test_a_shape_whose_measurement_killed_a_worker_is_not_measured_again(worker: Callable[..., Worker]) -> None:
    def faulty(_case: Case, _number: int) -> None:
        raise DeviceFault("The device reported an error.")

    one = worker("idle", Gpu(faulty))
    one.taken()
    assert not one.spare_time._try_step()
    assert one.ends == [EXIT_FAULT]
    successor = worker()
    assert successor.taken() == by_tables()
    successor.work()
    assert (successor.taken(), successor.gpu.behaviour.benches) == (by_tables(), 0)


def test_where_measuring_says_nothing_it_is_not_tried_again(worker: Callable[..., Worker]) -> None:
    one = worker()
    one.gpu.behaviour.watched = Watched(contended=True)
    one.taken()
    one.work()
    assert (one.taken(), one.gpu.behaviour.benches, one.shared.all()) == (by_tables(), 1, {NAME: ""})


def test_a_batch_that_formed_by_chance_is_not_measured(worker: Callable[..., Worker]) -> None:
    one = worker()
    one.spare_time.choices.choose(NEW, "fp32", is_measured=False)
    one.work()
    assert (one.gpu.behaviour.benches, one.shared.all()) == (0, {})


def test_nothing_is_measured_or_read_where_the_setting_says_so(worker: Callable[..., Worker]) -> None:
    one = worker()
    one.taken()
    one.work()
    off = worker("off")
    for _ in range(2):
        assert off.taken() == by_tables()
        off.work()
    assert off.gpu.behaviour.benches == 0


def test_shapes_are_listed_and_measured_when_someone_asks(worker: Callable[..., Worker]) -> None:
    one = worker("asked")
    one.taken()
    one.work()
    assert (one.shared.to_measure(9), one.gpu.behaviour.benches) == ([NAME], 0)
    one.shared.ask()
    one.spare_time._look_at = 0.0
    one.work()
    assert (one.taken(), one.shared.to_measure(9)) == ("fp32_emulated", [])


def test_what_is_listed_and_takes_too_long_to_measure_is_taken_off(worker: Callable[..., Worker]) -> None:
    one = worker()
    one.shared.want(["float32 fp32 30001x30001x30001x1", "what an older version wrote"])
    one.work()
    assert (one.shared.to_measure(9), one.gpu.behaviour.benches) == ([], 0)


def test_the_thread_does_all_that(worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts once no job has run for a while, is woken by a new shape, and ends with the process."""
    monkeypatch.setattr(spare_time, "QUIET_S", 0.01)
    one = worker()
    measured = Event()
    learn = one.spare_time.choices.learn

    def learnt(texts: dict[str, str]) -> None:
        learn(texts)
        if NAME in texts:
            measured.set()

    monkeypatch.setattr(one.spare_time.choices, "learn", learnt)
    one.spare_time.start()
    with one.loans.job():
        one.taken()
        assert not measured.wait(0.2) and one.gpu.behaviour.benches == 0
    assert measured.wait(DEADLINE_S)
    one.spare_time.stop()
    assert not one.loans.wait_until_quiet(0.0)


def test_what_is_likely_is_compiled_first_once(worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    one = worker("off")
    compiled: list[str] = []
    monkeypatch.setattr(one.gpu, "compile_ahead", lambda products: compiled.extend(c.kernel.name for c, _ in products))
    again = SpareTime(one.gpu, one.shared, one.loans, "off")
    while again.step():
        pass
    assert {"hopper_fp32", "fp32_emulated", "pipelined"} <= set(compiled)
    assert not again.step()
