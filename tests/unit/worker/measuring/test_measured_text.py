"""What other workers measured at a shape is read from Redis, where anything may be: what no device can have measured is
left to the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kernels.model.numerics import Problem
from kernels.selection.tuned import RankedRow, Trial
from tests.support.kernels.tuned import EMULATED, entry, row
from tests.support.workers.simulated import SimulatedRunner
from worker.product.auto import AutoChoices
from worker.product.shapes import AskedShape, Measured, read_measured

ASKED = AskedShape(Problem(509, 509, 509, "float32"), "fp32")
SOUND = Measured((entry(509, rows=[row("shared_tiled", 300.0, {"tile": 8}), row("cublas", 100.0)]),))


def changed(field: str, value: object) -> str:
    """With another value in the first row."""
    given: Any = json.loads(SOUND.text())
    given["entries"][0]["ranking"][0][field] = value
    return json.dumps(given)


def chosen(text: str) -> tuple[str, str]:
    choices = AutoChoices(SimulatedRunner())
    choices.learn({ASKED.name: text})
    choice = choices.choose(ASKED.problem, ASKED.accuracy)
    return choice.kernel.name, choice.why


def test_what_is_sound_is_taken() -> None:
    assert read_measured(SOUND.text(), ASKED) == SOUND
    assert chosen(SOUND.text())[0] == "shared_tiled" and "probed here" in chosen(SOUND.text())[1]


@pytest.mark.parametrize("field", ["gflops", "fraction_of_baseline"])
@pytest.mark.parametrize("value", [10**400, 1e300, 1e12, 1e-300, 5e-324, 0, -1.0])
def test_a_speed_that_no_device_has_is_left_to_the_tables(field: str, value: float) -> None:
    """Such as 10⁴⁰⁰, which is no float, and those whose ratios are none."""
    assert read_measured(changed(field, value), ASKED) is None
    assert "probed" not in chosen(changed(field, value))[1]


@pytest.mark.parametrize(("ranked", "is_read"), [(7, True), (6, False)])
def test_a_config_that_is_ranked_is_one_that_was_as_exact(ranked: int, is_read: bool) -> None:
    """And not another config of that kernel."""

    def config(min_products: int) -> dict[str, int]:
        return dict(EMULATED.resolve_config({"min_products": min_products}))

    trials = [
        Trial(kernel=EMULATED.name, config=config(at), gflops=9.0, fraction_of_baseline=None, error_of_baseline=error)
        for at, error in ((6, 1.5), (7, 0.5))
    ]
    rows: Sequence[RankedRow] = [row(EMULATED.name, 9.0, config(ranked)), row("cublas", 5.0)]
    measured = Measured((replace(entry(509, rows=rows), trials=tuple(trials)),))
    assert (read_measured(measured.text(), ASKED) == measured) is is_read


def test_what_another_version_wrote_is_read_or_left_to_the_tables() -> None:
    given: Any = json.loads(SOUND.text())
    del given["wrong"]
    assert read_measured(json.dumps(given), ASKED) == SOUND
    assert read_measured(json.dumps(given | {"later": 1}), ASKED) is None
    assert "probed" not in chosen(json.dumps(given | {"later": 1}))[1]


def test_no_words_from_redis_get_into_the_reason_that_a_caller_reads() -> None:
    measured = Measured((replace(SOUND.entries[0], baseline="whatever is there"),))
    text = measured.text().replace('"fraction_of_baseline":null', '"fraction_of_baseline":3.0')
    assert read_measured(text, ASKED) is None and "whatever" not in chosen(text)[1]
