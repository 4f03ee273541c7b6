"""What docs/performance.md says of the fast kernels' targets, and that these are of kernels there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.results import from_json
from benchmarks.kernel_targets import TARGETS, Target
from benchmarks.publish import RESULTS
from benchmarks.tables_targets import kernel_targets
from jobs.benchmark_spec import BenchmarkSpec
from kernels.catalog import BY_NAME

LARGE = from_json(Path(RESULTS / "h200" / "large.json").read_bytes())
RATIO = next(case for case in LARGE.cases if (case.kernel, case.n) == ("pipelined", 4096)).fraction_of_baseline


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kernel)
def test_a_target_is_of_a_kernel_that_takes_its_type_and_is_measured_by_a_valid_benchmark(target: Target) -> None:
    assert target.dtype in BY_NAME[target.kernel].dtypes
    assert all(must <= aim for must, aim in target.bounds.values())
    spec = BenchmarkSpec.model_validate(target.spec)
    assert spec.energy.enabled and spec.kernels


@pytest.mark.parametrize(("must", "aim", "said"), [(0.5, 0.9, "aim"), (0.5, 5.0, "reached"), (4.0, 5.0, "missed")])
def test_a_ratio_is_held_against_what_it_must_and_what_it_aims_at(must: float, aim: float, said: str) -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4096: (must, aim)})
    heading, _, told = kernel_targets({"pipelined": LARGE}, [target])
    assert heading.endswith("on an NVIDIA H200")
    assert RATIO is not None
    assert f"| {RATIO.value:.3f} | {RATIO.lo:.3f} to {RATIO.hi:.3f} | {must:g} | {aim:g} | {said} |" in told


def test_a_size_that_was_not_measured_is_told_and_a_kernel_that_was_not_is_left_out() -> None:
    some = Target(kernel="pipelined", dtype="float32", bounds={4096: (1.0, 1.1), 6000: (1.0, 1.1)})
    other = Target(kernel="hopper_bf16", dtype="bfloat16", bounds={4096: (1.0, 1.1)})
    told = "\n".join(kernel_targets({"pipelined": LARGE}, [some, other]))
    assert "| `pipelined` | 6000 | not measured |" in told
    assert "hopper_bf16" not in told
    assert list(kernel_targets({"pipelined": LARGE}, [other])) == []
