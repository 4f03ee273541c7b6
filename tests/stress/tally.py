"""How many products of a run each kernel had, of each type and with each option: rows of the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kernels.catalog import CATALOG
from kernels.model.activations import ACTIVATION_NAMES
from kernels.model.kernel import DeviceTraits
from kernels.selection.triangles import computes_triangle
from tests.stress.asked import own_epilogue
from tests.stress.cases import Case
from tests.stress.shares import Outcome

# "triangle": symmetric, of which one triangle was computed; "fused": with an epilogue of the kernel's own; "ragged": of
# jobs of unequal sizes; "c", "bias", "output": as a request has them.
OPTIONS = (
    *("exact", "batched", "transposed", "conjugated", "symmetric", "triangle", "grouped", "scaled", "stacked"),
    *("ragged", "widened", "tolerance", "reproducible"),
    *("epilogue", "fused", "c", "bias", *ACTIVATION_NAMES, "output"),
)
COLUMNS = ("kernel", "dtype", "products", "wrong", "refused", *OPTIONS)
Row = list[Any]


def options_of(case: Case, traits: DeviceTraits) -> Iterator[str]:
    """Those that a product has."""
    problem, drawn, after = case.problem, case.drawn, case.drawn.ending
    has = {
        "exact": case.exact,
        "batched": problem.batch > 1,
        "transposed": problem.transpose_a or problem.transpose_b,
        "conjugated": problem.conjugate_a or problem.conjugate_b,
        "symmetric": problem.symmetric,
        "triangle": problem.symmetric and computes_triangle(case.kernel, case.config, problem),
        "grouped": bool(problem.group_sizes),
        "scaled": problem.scale_columns > 0,
        "stacked": case.form == "stacked",
        "ragged": drawn.ragged,
        "widened": drawn.stored is not None,
        "tolerance": drawn.tolerance is not None,
        "reproducible": case.form == "reproducible",
        "epilogue": after is not None,
        "fused": own_epilogue(case, traits) is not None,
    }
    yield from (name for name, is_so in has.items() if is_so)
    if after is not None:
        given = {"c": after.c, "bias": after.bias, after.activation: after.activation, "output": after.output}
        yield from (name for name, value in given.items() if name and value)


def rows(cases: Sequence[Case], outcome: Outcome, traits: DeviceTraits) -> list[Row]:
    """By kernel and type, in the catalogue's order. What is refused is no product."""
    wrong, refused = ({number for number, _ in told} for told in (outcome.failures, outcome.refused))
    counts: dict[tuple[str, str], Counter[str]] = {}
    for case in cases:
        mine = counts.setdefault((case.kernel.name, case.problem.dtype), Counter())
        if case.number in refused:
            mine["refused"] += 1
            continue
        mine.update(("products", *options_of(case, traits)))
        mine["wrong"] += case.number in wrong
    order = [(kernel.name, dtype) for kernel in CATALOG for dtype in kernel.dtypes]
    return [[*key, *(counts[key][name] for name in COLUMNS[2:])] for key in order if key in counts]
