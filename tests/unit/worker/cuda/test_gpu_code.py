"""What only a GPU runs, as far as it can be proved without one: it can be imported, tests on a GPU put things in the
place of names that are there, and whatever a kernel takes is chosen, planned and admitted on every device."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernels.catalog import CATALOG
from tests.support.played.own_process import printed_by
from tests.support.played.variants import DEVICES


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    words: dict[str, Any] = json.loads(printed_by("tests.support.played.gpu_code"))
    return words


def test_every_module_can_be_imported(found: dict[str, Any]) -> None:
    assert found["not_importable"] == []


def test_what_tests_put_something_in_the_place_of_is_there(found: dict[str, Any]) -> None:
    """By module and name, by a dotted path, of each module of a loop, and of a class."""
    assert found["not_there"] == []
    seen = {
        "worker.cuda.products.operands.upload",
        "worker.cuda.gpu.admission.free_bytes",
        "worker.cuda.epilogue.on_device.allocate",
        "worker.cuda.compile.Compiler.binary",
    }
    assert seen <= {*found["replaced"]}


def test_whatever_a_kernel_takes_is_chosen_planned_and_admitted(found: dict[str, Any]) -> None:
    assert found["not_planned"] == found["not_taken"] == []
    runnable = {
        kernel.name
        for kernel in CATALOG
        if any(kernel.unsupported_because(traits) is None for traits in DEVICES.values())
    }
    assert {*found["planned"]} == runnable and min(found["planned"].values()) >= 6
