"""What lists call a benchmark that has no title of its own."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.benchmarks.spec import BenchmarkSpec
from service.dashboard.words import benchmark_title


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"kernels": ["naive"], "title": "Mine", "preset": "quick"}, "Mine"),
        ({"kernels": ["naive"], "preset": "quick"}, "quick"),
        ({"kind": "ceilings"}, "ceilings"),
        ({"kernels": "ladder"}, "sweep of ladder"),
        ({"kernels": ["naive", {"kernel": "pipelined", "configs": "all"}]}, "sweep of naive, pipelined"),
        ({"kernels": ["naive", "pipelined", "cublas"], "kind": "tune"}, "tune of naive, pipelined and 1 more"),
    ],
)
def test_it_says_what_is_measured(fields: dict[str, Any], title: str) -> None:
    shapes = {} if fields.get("kind") == "ceilings" else {"shapes": [32]}
    assert benchmark_title(BenchmarkSpec.model_validate(shapes | fields)) == title
