"""Divides the jobs of one claim into parts, each computed by one thread: in one launch, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from jobs.ledger.interface import Claimed
from jobs.ledger.submission import BESIDE
from jobs.models import MatmulRequest
from kernels.catalog import BY_NAME
from kernels.model.kinds.host_library import HostLibraryKernel
from kernels.model.numerics import Problem
from kernels.selection.demands import demand_of
from worker.check.verify import max_direct_batch
from worker.device.runner import Runner

# What two requests must agree in besides their operands' types and shapes.
_options = attrgetter(*(name for name in MatmulRequest.model_fields if name not in ("a", "b")))


class Part(NamedTuple):
    """`is_launch`: computed in one launch, else one after the other."""

    jobs: Sequence[Claimed]
    is_launch: bool


def parts_of(claimed: Sequence[Claimed], runner: Runner, light_extent: int) -> Sequence[Part]:
    """The parts, in the order in which they begin: heavy products, launches of light ones that are alike, and last the
    other light ones, which are computed one after the other. Jobs with a batch key are alike."""
    if len(claimed) < 2 or claimed[0].job.batch in ("", BESIDE):
        heavy: list[Claimed] = []
        light: list[Claimed] = []
        for each in claimed:
            (light if is_light(each, light_extent) else heavy).append(each)
        launches, alone = _together(light, runner)
        last = [Part(alone, is_launch=len(alone) == 1)] if alone else []
        return [*(Part([each], is_launch=True) for each in heavy), *launches, *last]
    if all(is_in_record(each) for each in claimed):
        return [Part(claimed, is_launch=True)]
    one = padded([request_of(each).problem for each in claimed])
    most = runner.max_launch_bytes // max(1, one.operand_bytes + one.product_bytes)
    count = max(1, min(most, _max_checked(one, len(claimed))))
    return [Part(claimed[first : first + count], is_launch=True) for first in range(0, len(claimed), count)]


def is_light(claimed: Claimed, light_extent: int) -> bool:
    """Whether none of its matrices has more than `light_extent` rows or columns, as lua/claim.lua asks."""
    request = claimed.job.record.request
    if not isinstance(request, MatmulRequest):
        return False
    shapes = [each.shape for each in request.operands.values()]
    return all(len(shape) == 2 and max(shape) <= light_extent for shape in shapes)


def is_in_record(claimed: Claimed) -> bool:
    """Whether all its matrices are."""
    return claimed.a is not None and claimed.b is not None and claimed.job.product_in_record


def request_of(claimed: Claimed) -> MatmulRequest:
    request = claimed.job.record.request
    assert isinstance(request, MatmulRequest), "benchmarks go another way"
    return request


def padded(singles: Sequence[Problem]) -> Problem:
    """The smallest problem that has room for each of these, which agree in all but m and n."""
    return replace(singles[0], m=max(each.m for each in singles), n=max(each.n for each in singles))


def _together(light: Sequence[Claimed], runner: Runner) -> tuple[list[Part], list[Claimed]]:
    """Launches of at least two jobs that are alike; and all other jobs."""
    kinds = [_kind(each) for each in light] if len(light) > 1 else []
    launches, launched = list[Part](), set[int]()
    for first, kind in enumerate(kinds):
        if kind is None or kind in kinds[:first]:
            continue
        alike = [index for index in range(first, len(kinds)) if kinds[index] == kind]
        one = request_of(light[first]).problem
        count = max(1, min(runner.max_alike(one), _max_checked(one, len(alike))))
        for some in (alike[start : start + count] for start in range(0, len(alike), count)):
            if len(some) > 1:
                launches.append(Part([light[index] for index in some], is_launch=True))
                launched.update(some)
    return launches, [each for index, each in enumerate(light) if index not in launched]


def _kind(claimed: Claimed) -> tuple[object, ...] | None:
    """What light jobs of one launch agree in; None of a job that is not a plain product of both its operands."""
    request = request_of(claimed)
    problem = request.problem
    if request.has_epilogue or request.scale_b is not None or request.group_sizes or demand_of(request):
        return None
    if problem.symmetric or problem.dtype != request.a.dtype:
        return None
    if isinstance(BY_NAME.get(request.kernel), HostLibraryKernel):
        return None
    shapes = request.a.dtype, request.a.shape, request.b.dtype, request.b.shape
    return *shapes, claimed.job.timeout_s, claimed.job.product_in_record, _options(request)


def _max_checked(one: Problem, count: int) -> int:
    """Of so many jobs, the most that a launch may have for each product to get the same check as it would alone."""
    return max_direct_batch(one.as_real) or count
