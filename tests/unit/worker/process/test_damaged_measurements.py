"""What is kept of a shape is damaged, of another shape, or nonsense: `auto` goes by its tables, and no job fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernels.model.numerics import Problem
from tests.support.workers.simulated import SimulatedRunner
from worker.product.auto import AutoChoices
from worker.product.shapes import AskedShape, read_measured

ASKED = AskedShape(Problem(701, 903, 1203, "float32"), "fp32")
LIBRARY = {"kernel": "cublas", "config": {}, "gflops": 20000.0, "fraction_of_baseline": 1.0}
FAST = LIBRARY | {"kernel": "hopper_fp32", "gflops": 30000.0, "fraction_of_baseline": 1.5}
TRIAL = FAST | {"kernel": "fp32_emulated", "error_of_baseline": 0.5}
ENTRY: dict[str, Any] = {
    "dtype": "float32",
    "accuracy": "fp32",
    "m": 701,
    "n": 903,
    "k": 1203,
    "batch": 1,
    "baseline": "cublas",
    "ranking": [FAST, LIBRARY],
    "trials": [],
}


def text_of(*entries: dict[str, Any]) -> str:
    return json.dumps({"entries": entries})


DAMAGED = {
    "nested too deeply": "[" * 30_000,
    "cut off": text_of(ENTRY)[:-9],
    "no speed": text_of(ENTRY | {"ranking": [FAST | {"gflops": 0.0}, LIBRARY]}),
    "a speed below zero": text_of(ENTRY | {"ranking": [FAST | {"gflops": -1.0}, LIBRARY]}),
    "the library's speed is zero": text_of(ENTRY | {"ranking": [FAST, LIBRARY | {"gflops": 0.0}]}),
    "no fraction": text_of(ENTRY | {"ranking": [FAST | {"fraction_of_baseline": 0.0}, LIBRARY]}),
    "no size": text_of(ENTRY | {"m": 0, "n": 0, "k": 0, "batch": 0}),
    "another shape": text_of(ENTRY | {"m": 702}),
    "another type": text_of(ENTRY | {"dtype": "float64", "accuracy": "fp64"}),
    "an unknown kernel": text_of(ENTRY | {"ranking": [FAST | {"kernel": "fastest_ever"}, LIBRARY]}),
    "an unknown kernel tried": text_of(ENTRY | {"trials": [TRIAL | {"kernel": "fastest_ever"}]}),
    "an error below zero": text_of(ENTRY | {"trials": [TRIAL | {"error_of_baseline": -0.5}]}),
    "less exact and ranked": text_of(
        ENTRY | {"ranking": [FAST | {"kernel": "fp32_emulated"}], "trials": [TRIAL | {"error_of_baseline": 2.0}]}
    ),
    "ranked and not tried": text_of(ENTRY | {"ranking": [FAST | {"kernel": "fp32_emulated"}, LIBRARY]}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_record_leaves_the_choice_to_the_tables(damage: str) -> None:
    choices, undisturbed = AutoChoices(SimulatedRunner()), AutoChoices(SimulatedRunner())
    choices.learn({ASKED.name: DAMAGED[damage]})
    expected = undisturbed.choose(ASKED.problem, "fp32")
    assert choices.choose(ASKED.problem, "fp32") == expected
    choices.adopt_best(ASKED)
    undisturbed.adopt_best(ASKED)
    assert choices.choose(ASKED.problem, "fp32") == undisturbed.choose(ASKED.problem, "fp32")
    assert read_measured(DAMAGED[damage], ASKED) is None


def test_a_config_that_this_kernel_cannot_have_is_not_taken() -> None:
    choices = AutoChoices(SimulatedRunner())
    choices.learn({ASKED.name: text_of(ENTRY | {"ranking": [FAST | {"config": {"block_m": 12345}}, LIBRARY]})})
    assert choices.choose(ASKED.problem, "fp32").kernel.name == "cublas"


def test_a_sound_record_decides() -> None:
    choices = AutoChoices(SimulatedRunner())
    choices.learn({ASKED.name: text_of(ENTRY)})
    assert choices.choose(ASKED.problem, "fp32").kernel.name == "hopper_fp32"
