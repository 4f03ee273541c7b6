"""A page that has kernels of several cards of one model says so."""

from __future__ import annotations

from analysis.result_models import Results
from benchmarks.kernel_targets import Target
from benchmarks.tables.targets import kernel_targets
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")
TARGETS = [Target(kernel=name, dtype="float32", bounds={4096: None}) for name in ("pipelined", "warp_tiled")]


def on_card(uuid: str) -> Results:
    return LARGE.model_copy(update={"device": LARGE.device | {"uuid": uuid}})


def test_several_cards_are_told_and_a_single_one_is_not() -> None:
    one, other = on_card("GPU-1"), on_card("GPU-2")
    assert "took part" not in "".join(kernel_targets({"pipelined": one, "warp_tiled": one}, TARGETS))
    told = "".join(kernel_targets({"pipelined": one, "warp_tiled": other}, TARGETS))
    assert "2 cards of that model took part" in told
