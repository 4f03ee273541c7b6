"""The conclusion of a comparison, in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.comparison.by_size import by_size
from analysis.comparison.compare import Run
from analysis.condition import of_kind
from analysis.measurement import Measurement
from service.benchmarks.comparison import RunId, comparison_of
from service.dashboard.benchmarks.compare import by_size_in_words, in_words
from tests.support.recorded import timed

BEFORE, SAME, FASTER, SLOWER = (timed(ms, ms, ms * 1.001) for ms in (1.0, 1.0, 0.5, 2.0))
DISTURBED = replace(SAME, condition=of_kind("contended"))


def at(n: int, one: Measurement) -> Measurement:
    return replace(one, m=n, n=n, k=n)


def sentence(*after: Measurement) -> str:
    first, second = (
        Run(name="", measurements=[at(64 + place, one) for place, one in enumerate(run)])
        for run in ([BEFORE] * len(after), after)
    )
    return in_words(comparison_of(first, second, RunId("a", True), RunId("b", True)))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ((FASTER, FASTER, SLOWER), "Of 3 cases that both have: faster in 2, slower in 1."),
        ((FASTER, SAME, DISTURBED), "Of 3 cases that both have: faster in 1, same in 1; 1 not comparable."),
        ((DISTURBED, DISTURBED), "No conclusion: of 2 cases that both have, 2 not comparable."),
    ],
)
def test_verdicts_in_a_sentence(after: tuple[Measurement, ...], words: str) -> None:
    assert sentence(*after) == words


def test_runs_without_a_common_case() -> None:
    other = replace(FASTER, kernel="cpu_blas", label="cpu_blas")
    assert by_size_in_words(by_size([BEFORE], [other])).endswith(
        "the fastest after is 2 times as fast as the fastest before."
    )
    disturbed = replace(other, condition=of_kind("contended"))
    (pair,) = by_size([BEFORE], [disturbed])
    assert by_size_in_words([pair]).startswith(
        "No conclusion: no case in common, and something disturbed every size that both have (1)"
    )
    assert pair.why_not.startswith("After: Another process used the device")
    assert by_size_in_words([]).startswith("No conclusion: they have neither")
