"""Kernels of one family have one hue, and no two curves look alike."""

from __future__ import annotations

from itertools import islice

from analysis.curves import is_library
from analysis.plots.looks import FAMILIES, HUES, KERNEL_LOOKS, free_looks, looks
from kernels.catalog import KERNEL_NAMES


def test_every_kernel_that_is_no_library_s_has_a_family() -> None:
    named = [name for family in FAMILIES for name in family]
    assert len(named) == len(set(named)) and len(FAMILIES) <= HUES
    assert set(named) == {name for name in KERNEL_NAMES if not is_library(name)}


def test_no_two_kernels_look_alike() -> None:
    assert len(set(KERNEL_LOOKS.values())) == len(KERNEL_NAMES)
    assert {KERNEL_LOOKS[name].hue for name in FAMILIES[1]} == {1}
    assert not set(islice(free_looks(), 100)) & set(KERNEL_LOOKS.values())


def test_a_label_of_a_source_takes_a_free_look() -> None:
    found = looks([("naive", "naive"), ("V1", "naive"), ("cuBLAS", "cublas"), ("V2", None)])
    assert found["naive"] == KERNEL_LOOKS["naive"]
    assert found["cuBLAS"].hue is None
    assert len(set(found.values())) == 4
