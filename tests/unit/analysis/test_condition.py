"""The condition of a case: recorded samples with a disturbance planted."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.condition import condition, of_kind
from jobs.benchmarks.records import DeviceState
from tests.unit.analysis.findings import DOCUMENT, record

ROW = next(row for row in DOCUMENT["records"] if (row["kernel"], row["n"]) == ("pipelined", 2048))
MEDIAN_US = ROW["kernel_ms"] * 1e3
VAGUE = {"stop_reason": "max_samples", "ci95_lo_us": 0.95 * MEDIAN_US, "ci95_hi_us": 1.05 * MEDIAN_US}
HEAT = DeviceState(event_reason_ns={"hw_thermal": 7, "power_brake": 0, "power_cap": 9})


@pytest.mark.parametrize(
    ("planted", "kind", "words"),
    [
        ({}, "clean", ""),
        ({"stop_reason": "max_samples"}, "clean", ""),  # its median is known to ±0.2 %
        ({"power_limited": True}, "clean", ""),
        ({"contended": True}, "contended", "Another process used the device while it was measured."),
        ({"throttled": True, "state": HEAT}, "throttled", "Heat held the clock down while it was measured."),
        ({"throttled": True, "discarded": 30}, "throttled", "75 % of its samples were thrown away"),
        ({"throttled": True}, "throttled", "Heat or a power brake"),
        (VAGUE, "not converged", "known to ±5.0 % only"),
        (VAGUE | {"stop_reason": "noise_is_steady"}, "not converged", "known to ±5.0 % only"),
        (VAGUE | {"ci95_hi_us": 3.0 * MEDIAN_US}, "not converged", "too far apart"),
        (VAGUE | {"ci95_lo_us": None}, "not converged", "Its 10 samples are too few"),
        (VAGUE | {"contended": True}, "contended", "known to ±5.0 % only"),
        ({"status": "oom", "reason": "No room."}, "no figure", "No room."),
    ],
)
def test_kind_and_sentence(planted: dict[str, Any], kind: str, words: str) -> None:
    found = condition(record(ROW, **planted))
    assert found.kind == kind and words in found.sentence and found.is_clean == (kind == "clean")
    assert bool(found.sentence) != found.is_clean


def test_a_label_says_both_status_and_disturbance() -> None:
    labels = [condition(record(ROW, **planted)).label for planted in ({}, {"contended": True}, {"status": "oom"})]
    assert labels == ["ok", "ok, contended", "oom"]


def test_of_published_results_the_kind_alone_is_known() -> None:
    assert of_kind("clean").is_clean and of_kind("throttled").sentence
    assert of_kind("clean", "incorrect").kind == "no figure"
