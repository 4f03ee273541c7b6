"""Targets of a kernel that is measured in several configs, and of complex types."""

from __future__ import annotations

from typing import Any

from benchmarks.kernel_targets import Target
from benchmarks.tables.targets import beside
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")  # every kernel at two sizes


def test_a_target_is_of_its_own_config_and_names_a_complex_type() -> None:
    """Whatever is measured beside it, and in which order."""
    (case,) = (one for one in LARGE.records if one.kernel == "pipelined" and one.n == 4096)
    fast = {"kernel": "complex_as_real", "config": {"emulated": 1}, "gflops": 2 * (case.gflops or 0.0)}
    slow = case.model_copy(update={"kernel": "complex_as_real", "config": {"emulated": 0}})
    run = LARGE.model_copy(update={"records": (case.model_copy(update=fast), slow, *LARGE.records)})
    fields: dict[str, Any] = {"kernel": "complex_as_real", "dtype": "complex64", "bounds": {4096: (0.1, 9.0)}}
    for target, expected in (
        (Target(**fields, others=({"emulated": 1},)), slow.gflops),
        (Target(**fields, config={"emulated": 1}, others=({"emulated": 0},)), fast["gflops"]),
    ):
        (found,) = beside(target, {target.name: run})
        assert found.ours.gflops == expected
        assert found.named.startswith("`complex_as_real` of complex64")
