"""Checks `group_sizes` of a request against the rows of A and the matrices of B."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.errors import InvalidRequest, ShapeMismatch
from jobs.formats.elements import shape_text
from kernels.model.groups import MAX_GROUPS, with_groups
from kernels.model.numerics import Problem
from service.bodies.options import MatmulOptions

# What a grouped product does not support: some options, and operands other than A and B.
OTHERS = ("transpose_a", "alpha", "beta", "activation", "output_dtype", "tolerance", "tolerance_kind", "reproducible")
NEEDED = frozenset({"a", "b"})


def check_alone(options: MatmulOptions, operands: Iterable[str]) -> None:
    """Raises InvalidRequest if there are groups together with options or operands that groups do not support."""
    if options.group_sizes is None:
        return
    usual = MatmulOptions()
    asked = [name for name in OTHERS if getattr(options, name) != getattr(usual, name)]
    asked += [name for name in operands if name not in NEEDED]
    if asked:
        raise InvalidRequest(f"A product with group_sizes has no {asked[0]}; leave one of them out.", field=asked[0])
    if len(options.group_sizes) > MAX_GROUPS:
        raise InvalidRequest(
            f"group_sizes has {len(options.group_sizes)} groups, and there may be {MAX_GROUPS}; send several requests.",
            field="group_sizes",
        )


def grouped(problem: Problem, sizes: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> Problem:
    """The grouped problem for operands of these shapes, whose other dimensions are known to fit. Raises
    ShapeMismatch.
    """
    if len(a) == 3:
        raise ShapeMismatch(f"a is {shape_text(a)}, but with group_sizes it has rows and columns alone.", field="a")
    if len(b) != 3:
        raise ShapeMismatch(
            f"b is {shape_text(b)}, but with group_sizes it is a batch of matrices, one for each group.", field="b"
        )
    if len(sizes) != b[0]:
        raise ShapeMismatch(
            f"group_sizes has {len(sizes)} numbers but b has {b[0]} matrices; there must be one for each.",
            field="group_sizes",
        )
    if sum(sizes) != problem.m:
        raise ShapeMismatch(
            f"group_sizes add up to {sum(sizes)} but a has {problem.m} rows; each row of a must be in one group.",
            field="group_sizes",
        )
    return with_groups(problem, sizes)
