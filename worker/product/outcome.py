"""What a product's job records of it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.models import MatmulRequest, Measured, Outcome, ProductInfo, Verification
from kernels.model.numerics import Problem
from kernels.model.triangle import triangle_flops
from kernels.selection.candidates import Choice
from kernels.selection.triangles import ONE_TRIANGLE, computes_triangle
from worker.device.runner import Runner


def outcome_of(
    request: MatmulRequest,
    choice: Choice,
    runner: Runner,
    measured: Measured,
    verification: Verification,
    launched: Sequence[Problem] = (),
    *,
    in_tiles: bool = False,
) -> Outcome:
    """The outcome of one job. `launched`: if several products share the launch that was measured, all of them, this one
    included."""
    problem, delivered = request.problem, request.delivered
    is_whole = launched or in_tiles or not computes_triangle(choice.kernel, choice.config, problem)
    flops = sum(each.flops for each in launched) or (problem.flops if is_whole else triangle_flops(problem))
    return Outcome(
        kernel=choice.kernel.name,
        config=dict(choice.config),
        why=choice.why if is_whole else f"{choice.why} {ONE_TRIANGLE}",
        device=runner.device.name,
        product=ProductInfo(shape=delivered.shape, dtype=delivered.dtype, bytes=delivered.bytes),
        measured=measured,
        gflops=flops / (measured.kernel_ms * 1e6) if measured.kernel_ms > 0 else None,
        verification=verification,
        batch=max(1, len(launched)),
    )
