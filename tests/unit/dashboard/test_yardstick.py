"""Which published run a benchmark's page offers to hold it against."""

from __future__ import annotations

import pytest

from service.dashboard.benchmarks.results import model_of, yardstick_of
from tests.support.recorded import recorded_results

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("preset", "device", "expected"),
    [
        ("grade", "NVIDIA H200", "h200_grade"),
        ("grade", H100, "h100_grade"),
        ("grade", "NVIDIA T4", "h200_grade"),
        ("roofline", H100, "h200_roofline"),  # no H100 has run it
        ("small-products", "NVIDIA H200", "h200_small_products"),
        (None, H100, "h200_twenty_sizes"),
    ],
)
def test_it_is_the_same_preset_and_where_there_is_one_the_same_device(
    preset: str | None, device: str, expected: str
) -> None:
    results = recorded_results("quick")
    run = results.model_copy(
        update={"spec": results.spec.model_copy(update={"preset": preset}), "device": {"name": device}}
    )
    assert yardstick_of(run).name == expected


def test_a_device_is_called_by_its_model() -> None:
    names = (H100, "NVIDIA H200", "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 4090", None)
    assert [model_of(name) for name in names] == ["H100", "H200", "A100-SXM4-40GB", "GeForce RTX 4090", "other device"]
