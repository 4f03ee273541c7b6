"""Launches with more tiles than there are blocks to compute them, of every kernel whose blocks stay and go from tile to
tile: what a tile left in shared memory, some warps may still read when others begin with the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from kernels.entries.hopper.waves import ROW_BYTES
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES
from kernels.model.triangle import MULTIPROCESSORS
from tests.gpu.sanitize.case import NORMAL, Swept
from worker.cuda.sources import kernel_program

REST = 5  # rows and columns of the last tiles, which so have warps with nothing to multiply
STAGES = 6  # of the longest ring among those that no config tells
TYPES = ("DTYPE_", "OUTPUT_", "ACTIVATION_")

# What is compiled into a kernel, but for types and the sizes of tiles; and whether B lies along k, for kernels that
# take it in one way alone or, lying otherwise, out of registers.
Form = tuple[str, frozenset[str], bool]


def form_of(one: Swept) -> Form:
    plan = one.plan
    sizes = {f"-D{each.name.upper()}" for each in one.kernel.parameters if each.name != "promote"}
    left_out = ("--", "-DTRANSPOSE", "-DCONJUGATE", *(f"-D{each}" for each in TYPES))
    options = kernel_program(one.kernel, one.config, one.problem, fused=one.fused).options
    own = (each for each in options if each.partition("=")[0] not in sizes and not each.startswith(left_out))
    along_k = plan.boxes is not None and plan.boxes.wanted is not None and plan.launched.transpose_b
    return one.kernel.name, frozenset(own), along_k


def stays(one: Swept) -> bool:
    """Whether a product large enough has more tiles than blocks. It is none of numbers left to another kernel."""
    return one.plan.main.resident and one.fill == NORMAL


def has_several_tiles(one: Swept, multiprocessors: int) -> bool:
    """Whether some block, or cluster of blocks, computes more than one."""
    main = one.plan.main
    return main.resident and main.grid[0] * main.cluster > main.on(multiprocessors)[0]


def stage_depth(one: Swept) -> int:
    """Steps of k of a stage."""
    return one.config.get("block_k", ROW_BYTES // DTYPES[one.problem.dtype].itemsize)


def with_several_tiles(swept: Iterable[Swept], traits: DeviceTraits) -> Iterator[Swept]:
    """Of each form of a kernel once so deep that the ring of stages goes round in each tile; of those with an epilogue
    once a stage deep, since that begins behind the last one. The plain form, which comes first, is also launched that
    deep, and without any k where it is launched then."""
    forms: dict[Form, list[Swept]] = {}
    for one in filter(stays, swept):
        forms.setdefault(form_of(one), []).append(one)
    several = traits.multiprocessors or MULTIPROCESSORS
    for number, (form, alike) in enumerate(forms.items()):
        one, depth = alike[0], stage_depth(alike[0])
        deep = [] if one.fused is not None else [depth * (one.config.get("stages", STAGES) + 1)]
        shallow = [depth] if one.fused is not None or number == 0 else []
        larger = [_larger(one, k, several) for k in deep]
        larger += [_larger(max(alike, key=lambda each: each.problem.batch), k, several) for k in shallow]
        larger += [_larger(one, 0, several)] if number == 0 and one.kernel.passes is None else []
        yield from (each for each in larger if form_of(each) == form)


def _larger(one: Swept, k: int, multiprocessors: int) -> Swept:
    """With as few rows and columns as do."""
    rows, columns = one.config["block_m"], one.config["block_n"]
    sizes = ((side + more, side) for side in count(1) for more in (0, 1))
    larger = (_sized(one, down * rows + REST, across * columns + REST, k) for down, across in sizes)
    return next(each for each in larger if has_several_tiles(each, multiprocessors))


def _sized(one: Swept, m: int, n: int, k: int) -> Swept:
    groups = one.problem.group_sizes
    groups = (*groups[:-1], m - sum(groups[:-1])) if groups else ()
    n = m if one.problem.symmetric else n
    return replace(one, problem=replace(one.problem, m=m, n=n, k=k, group_sizes=groups))
