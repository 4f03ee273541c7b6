"""A case measured in another process: its answer, its end without one, and its being called off."""

from __future__ import annotations

import sys
import time

import pytest

from jobs.benchmarks.records import Samples
from jobs.errors import StaleAttempt
from jobs.settings import Settings
from tests.support.workers.simulated import case_run_of, record_of, spec_of
from worker.benchmark import isolated
from worker.benchmark.isolated import CASE_RUN, RESULT, Isolated
from worker.cpu.runner import CpuRunner


def running(program: str) -> Isolated:
    return Isolated((sys.executable, "-c", program))


def test_a_turn_survives_the_way_there() -> None:
    case_run = case_run_of(spec_of(verify="full"), round_number=3, baseline="abc")
    assert CASE_RUN.validate_json(CASE_RUN.dump_json(case_run)) == case_run


def test_the_answer_is_the_result() -> None:
    result = record_of(case_run_of(), [1.0, 2.0]), Samples(time_us=(1.0, 2.0))
    program = f"import sys; sys.stdin.readline(); sys.stdout.write({RESULT.dump_json(result).decode()!r})"
    assert running(program).measure(case_run_of(), lambda: None) == result


def test_a_fresh_process_that_finds_another_device_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MATMUL_DEVICE", raising=False)
    record, _ = Isolated().measure(case_run_of(), lambda: None)
    assert record.status == "launch_error"
    assert (
        record.reason == f"A fresh process finds {CpuRunner(Settings()).device.name}, not {case_run_of().device.name}."
    )


@pytest.mark.parametrize("program", ["raise SystemExit(7)", "input(); raise SystemExit(7)"])
def test_a_process_that_breaks_off_is_a_launch_error(program: str) -> None:
    record, _ = running(program).measure(case_run_of(), lambda: None)
    assert record.status == "launch_error"
    assert record.reason == "Its process ended with exit code 7; the worker's log may say more."


def test_a_process_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "START_S", 0.2)
    case_run = case_run_of(spec_of(timing={"timeout_s": 0.01}, energy={"window_s": 0.5}))
    record, _ = running("import time; time.sleep(60)").measure(case_run, lambda: None)
    assert record.status == "timeout" and record.reason == "Its process did not end in 0.76 s."


def test_it_is_ended_when_the_job_is_lost() -> None:
    until = time.monotonic() + 0.2

    def check() -> None:
        if time.monotonic() > until:
            raise StaleAttempt

    with pytest.raises(StaleAttempt):
        running("import time; time.sleep(60)").measure(case_run_of(), check)
    assert time.monotonic() < until + 50
