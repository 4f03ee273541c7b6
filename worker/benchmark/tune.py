"""The `tune` kind: for each problem the fastest configs of each kernel are searched for and then timed as a sweep is.

Rounds below `timing.rounds` are the final timing of the finalists of all kernels together with the baselines, so that
their ratios are paired. Later round numbers belong to the searches (successive halving), with few samples each, used
only for choosing. All timings are stored as in a sweep, so another attempt finds the same finalists without measuring
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from jobs.benchmarks.cases import Case, expand
from jobs.benchmarks.spec import BenchmarkSpec, TimingSpec
from jobs.errors import InvalidConfig, InvalidRequest, JobFailed
from jobs.fleet.workers import DeviceInfo
from kernels.catalog import BY_NAME
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import TileConfig
from kernels.model.numerics import Problem
from kernels.resources import records_of
from worker.benchmark.order import shuffled_runs
from worker.benchmark.run import BenchmarkRun
from worker.benchmark.search import FINALISTS, halving_rounds, search

HALVING_SAMPLES = 4  # of the first round; twice as many in each that follows
HALVING_WARMUP_MS = 20.0  # upper limit: a clearly slower config need not be timed precisely


@dataclass(slots=True)
class Space:
    """A kernel's configs for one problem."""

    kernel: str
    cases: list[Case] = field(default_factory=list)


@dataclass(slots=True)
class Task:
    """One problem: spaces to search, baselines, and skipped cases with their reasons."""

    problem: Problem
    spaces: dict[str, Space] = field(default_factory=dict)
    baselines: list[Case] = field(default_factory=list)
    skipped: list[Case] = field(default_factory=list)

    def measurements(self, spec: BenchmarkSpec) -> int:
        """The number of measurements if every config runs."""
        tries = [min(len(space.cases), spec.tune.budget) for space in self.spaces.values()]
        if spec.tune.strategy == "exhaustive":
            finalists = sum(tries)
            choosing = sum(len(space.cases) for space in self.spaces.values()) - finalists
        else:
            finalists = sum(min(count, FINALISTS) for count in tries)
            choosing = sum(sum(halving_rounds(count)) for count in tries)
        return len(self.skipped) + choosing + (finalists + len(self.baselines)) * spec.timing.rounds


def tune(run: BenchmarkRun) -> None:
    """Runs a tuning benchmark. Raises JobFailed if the device can do nothing of what the spec asks for, DeviceFault,
    and as BenchmarkRun does.
    """
    try:
        tasks = plan(run.spec, run.device)
    except (InvalidRequest, InvalidConfig) as error:
        raise JobFailed(error.detail) from error
    expected = [task.measurements(run.spec) for task in tasks]
    for number, task in enumerate(tasks):
        run.plan(sum(expected))
        expected[number] = _tune_problem(run, task, others=sum(expected) - expected[number])
    run.plan(sum(expected))


def _tune_problem(run: BenchmarkRun, task: Task, *, others: int) -> int:
    """Searches and times one problem; returns the number of measurements."""
    counted = 0
    for case in task.skipped:
        run.measure(case)
        counted += 1
    finalists = list(task.baselines)
    for space in task.spaces.values():
        found, asked = _finalists(run, space)
        finalists += found
        counted += asked
    case_runs = list(shuffled_runs(finalists, run.spec.timing.rounds, run.spec.data.seed))
    run.plan(others + counted + len(case_runs))  # configs that do not run have left the race
    for number, case in case_runs:
        run.measure(case, number)
    return counted + len(case_runs)


def _finalists(run: BenchmarkRun, space: Space) -> tuple[list[Case], int]:
    """The configs worth timing in full, and the number of measurements of the search."""
    configs = [case.config for case in space.cases]
    by_config = {tuple(case.config.items()): case for case in space.cases}
    asked = 0

    def cost(config: TileConfig, number: int) -> float | None:
        nonlocal asked
        asked += 1
        case = by_config[tuple(config.items())]
        record = run.measure(case, run.spec.timing.rounds + number, halving_timing(run.spec.timing, number))
        return record.kernel_ms if record.status == "ok" else None

    problem = space.cases[0].problem
    seed = f"{run.spec.data.seed}:{space.kernel}:{problem}"
    places = search(configs, BY_NAME[space.kernel].parameters, run.spec.tune, seed, cost)
    finalists = [space.cases[place] for place in places]
    if run.spec.tune.strategy == "exhaustive":
        asked += _left_out(run, [case for case in space.cases if case not in finalists])
    return finalists, asked


def _left_out(run: BenchmarkRun, cases: Sequence[Case]) -> int:
    """Records as skipped the cases that should have been timed; returns their number."""
    for case in cases:
        run.skip(case, f"The budget of {run.spec.tune.budget} configs of a kernel for a shape was spent on others.")
    return len(cases)


def halving_timing(timing: TimingSpec, number: int) -> TimingSpec:
    """A fixed number of samples, the same for all in a round."""
    samples = min(timing.max_samples, HALVING_SAMPLES << number)
    return timing.model_copy(
        update={
            "min_samples": samples,
            "max_samples": samples,
            "min_time_s": 0.0,
            "warmup_ms": min(timing.warmup_ms, HALVING_WARMUP_MS),
        }
    )


def plan(spec: BenchmarkSpec, device: DeviceInfo) -> list[Task]:
    """The tasks to search: every config, unless the spec names some. Raises InvalidRequest, InvalidConfig."""
    wide = spec.model_copy(update={"configs": "all"}) if spec.configs == "default" else spec
    tasks: dict[Problem, Task] = {}
    for case in expand(wide, device):
        task = tasks.setdefault(case.problem, Task(case.problem))
        if case.skip is not None:
            task.skipped.append(case)
        elif case.is_baseline:
            task.baselines.append(case)
        else:
            task.spaces.setdefault(case.kernel, Space(case.kernel)).cases.append(case)
    if spec.tune.strategy != "exhaustive":
        for task in tasks.values():
            _leave_out_spilling(task, device)
    return list(tasks.values())


def _leave_out_spilling(task: Task, device: DeviceInfo) -> None:
    """If a kernel has configs without spilled registers, those with spills are skipped."""
    for space in task.spaces.values():
        spilling = dict(_spilling(space.cases, device))
        if len(spilling) < len(space.cases):
            space.cases = [case for case in space.cases if case.id not in spilling]
            task.skipped += spilling.values()


def _spilling(cases: Sequence[Case], device: DeviceInfo) -> Iterator[tuple[str, Case]]:
    """Spilling cases by id, with the reason, as far as configs were compiled for that architecture and element type."""
    arch = next((a.name for a in ARCHITECTURES.values() if a.compute_capability == device.compute_capability), None)
    for case in cases:
        records = records_of(case.kernel)
        record = records.find(case.config, case.problem.dtype) if records else None
        usage = record.usage.get(arch or "") if record else None
        if usage is not None and usage.spills:
            reason = (
                f"Compiled for {arch} it spills {usage.local_bytes} bytes of a thread to local memory, so the search "
                "leaves it out; the strategy exhaustive times it."
            )
            yield case.id, replace(case, skip=reason)
