"""The table of docs/which-kernel.md."""

from __future__ import annotations

import re

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.numerics import DTYPES
from tools.docs.kernel_choices import COLUMNS, kernel_choices

ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in kernel_choices().splitlines()[2:]]


def test_each_type_begins_with_its_default_class() -> None:
    first = {row[0].strip("`"): row[1] for row in reversed(ROWS)}
    assert first == {name: f"`{dtype.accuracy}`, the default" for name, dtype in DTYPES.items()}


def test_a_kernel_stands_where_it_takes_the_type_to_that_class() -> None:
    for row in ROWS:
        (dtype,) = (name for name in DTYPES if f"`{name}`" == row[0])
        accuracy = row[1].split(",")[0].strip("`")
        for cell in row[2:]:
            assert all(BY_NAME[name].accuracy[dtype] == accuracy for name in re.findall(r"`(\w+)`", cell))
    hopper = COLUMNS.index("Hopper")
    assert {name for row in ROWS for name in re.findall(r"`(\w+)`", row[hopper])} >= {"hopper_bf16", "fp32_emulated"}


def test_all_kernels_from_warp_tiled_on_are_named() -> None:
    names = [kernel.name for kernel in CATALOG]
    assert set(names[names.index("warp_tiled") :]) <= set(re.findall(r"`(\w+)`", kernel_choices()))
