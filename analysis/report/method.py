"""How it was measured: what this run did, on a device such as it ran on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from analysis.report.document import Block, Heading, Items, Text, counted
from analysis.report.subject import Subject
from analysis.result_models import Results
from jobs.benchmarks.records import CaseRecord, StopReason
from jobs.benchmarks.spec import BenchmarkSpec
from kernels.model.numerics import DTYPES

_ENDED: dict[StopReason, str] = {
    "noise_is_steady": "ended when more samples no longer narrowed their spread",
    "max_samples": "ended at the largest number of samples",
    "timeout": "ended at the time limit",
}
_VERIFIED = {
    "freivalds": "by Freivalds' check with random vectors, in O(n²)",
    "full": "element by element against the product in float64",
    "exact": "exactly: operands are small integers, and no difference is allowed",
}
_DATA = {
    "normal": "normally distributed, with mean 0 and variance 1",
    "uniform": "uniform in [0, 1)",
    "integers": "integers from -8 to 8",
    "zeros": "zeros, which draw less power than real data",
}


def method(subject: Subject) -> Iterator[Block]:
    yield Heading(2, "Method")
    results = subject.results
    if results is None:
        yield Text(
            f"The figures are quoted from their source: {subject.source.rstrip('.')}. How they were measured is said "
            "there."
        )
        return
    if results.spec.kind == "ceilings":
        yield Text(
            "Each roof is measured by a kernel that does nothing else: copies for memory, chains of multiply and add "
            "for arithmetic, the library's largest product for matrix units. How stands beside each."
        )
        return
    yield Text(" ".join(_sentences(results, subject.on_cpu)))
    yield Items(
        (
            f"GFLOPS are {_operations(results.spec)} over the median time, whatever a kernel does in padding; bytes "
            "are decimal.",
            f"Times are of the kernel alone{'' if subject.on_cpu else ', without copies or launch overhead'}.",
            "A ratio to the baseline is taken between two kernels of the same round, then the median over rounds.",
            "A product that fails its check has no figures here, and none may be faster than the device's roofs.",
            "A case that was disturbed while it was measured is marked, and no conclusion rests on it.",
        )
    )


def _operations(spec: BenchmarkSpec) -> str:
    """What GFLOPS count."""
    of_complex = [DTYPES[name].is_complex for name in spec.dtypes]
    if not any(of_complex):
        return "2·m·n·k"
    return "8·m·n·k real operations" if all(of_complex) else "2·m·n·k, or 8·m·n·k of complex numbers,"


def _sentences(results: Results, on_cpu: bool) -> Iterator[str]:
    """What this run did, on a device such as it ran on."""
    spec = results.spec
    timing, data = spec.timing, spec.data
    scale = f", times {data.scale:g}" if data.scale != 1 else ""
    where = "" if on_cpu else " on the device"
    yield f"Operands are {_DATA[data.distribution]}{scale}, made{where} from seed {data.seed}."
    yield f"Each product is checked {_VERIFIED[spec.verify]}, before it is timed and after."
    if spec.verify == "exact" and (rounded := sum(map(_is_rounded, results.records))):
        yield (
            f"In {counted(rounded, 'case')} the type cannot hold all sums exactly, so these products are checked "
            f"{_VERIFIED['freivalds']} instead."
        )
    if spec.kind == "tune" and not on_cpu:
        kind = {"auto": "as far as the budget allows", "exhaustive": "one and all", "random": "drawn at random"}
        budget = f"at most {spec.tune.budget} of them for a shape"
        yield f"Of each kernel's tile configs, {kind[spec.tune.strategy]}, {budget}, the fastest were timed in full."
    cache = "last-level cache" if on_cpu else "L2 cache"
    cold = f"The {cache} is overwritten before each {'launch' if on_cpu else 'sample'} (cold)"
    yield f"{cold if timing.cache == 'cold' else f'The {cache} keeps what the sample before left (warm)'}."
    rounds = "one round" if timing.rounds == 1 else f"{timing.rounds} rounds, each in another order"
    yield f"Cases are measured in {rounds}, drawn from the same seed{_baseline(spec)}."
    yield from _sampling(results)
    if on_cpu:
        yield "Time is the CPU's monotonic clock around each call; its clock rate is not measured."
        return
    yield (
        "Launches are queued before the clock starts. The SM clock is measured with each sample; samples taken while "
        "it was far down are thrown away."
    )
    if spec.transfers.enabled:
        more = ", and of ordinary memory" if spec.transfers.pageable else ""
        yield f"Copies to and from the device are of page-locked memory{more}, timed apart and never overlapped."
    if spec.energy.enabled:
        yield f"Energy is read from the device's counter over a loop of {spec.energy.window_s:g} s."
    if spec.fresh_process:
        yield "Each case runs in a process of its own."


def _is_rounded(record: CaseRecord) -> bool:
    """Of a run with exact checks: whether this case could have none."""
    return record.before is not None and record.before.mode == "freivalds"


def _sampling(results: Results) -> Iterator[str]:
    """The rule for sampling, and how many cases met its aim."""
    timing = results.spec.timing
    yield (
        f"A case is warmed up for at least {timing.warmup_ms:g} ms, and sampled until the 95 % interval of its median "
        f"is within {100 * timing.precision:g} %, after at least {timing.min_samples} samples and "
        f"{timing.min_time_s:g} s or 30 samples, at most {timing.max_samples} samples and {timing.timeout_s:g} s a "
        "round; the samples of all rounds are then taken together."
    )
    timed = [record for record in results.records if record.stop_reason is not None]
    ended = Counter(record.stop_reason for record in timed)
    others = [f"{ended[reason]} {words}" for reason, words in _ENDED.items() if ended[reason]]
    if others:
        yield f"Of {len(timed)} cases {ended['precise'] or 'none'} became that precise; {', '.join(others)}."


def _baseline(spec: BenchmarkSpec) -> str:
    if spec.baseline == "none":
        return ", without a baseline"
    named = "the library's kernel of the same element type and accuracy" if spec.baseline == "auto" else spec.baseline
    return f"; the baseline, {named}, is in every round"
