"""Launches that measurements compare."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benchmarks.measure.interleaved.launches import library_launches
from benchmarks.measure.interleaved.timing import rounded
from kernels.model.numerics import Problem

PROBLEM = Problem(2, 3, 4, "bfloat16")


def test_each_launch_calls_the_entry_that_it_is_named_for() -> None:
    called: list[tuple[Any, ...]] = []
    cublas = SimpleNamespace(multiply=lambda *arguments: called.append(arguments))
    launches = library_launches(cast(Any, cublas), PROBLEM, ("cublas", "cublas_tuned"))
    at = cast(Any, SimpleNamespace(a="A", b="B", c="C"))
    for launch in launches.values():
        launch(at)
    assert list(launches) == ["cublas", "cublas_tuned"]
    assert called == [(name, PROBLEM, "A", "B", "C") for name in launches]


def test_records_keep_ten_nanoseconds() -> None:
    assert rounded({"own": 0.1234567}) == {"own": 0.12346}
