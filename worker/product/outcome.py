"""What a product's job records of it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.models import MatmulRequest, Measured, Outcome, ProductInfo, Verification
from kernels.model.numerics import Problem
from kernels.selection.choose import Choice
from worker.device.runner import Runner


def outcome_of(
    request: MatmulRequest,
    choice: Choice,
    runner: Runner,
    measured: Measured,
    verification: Verification,
    launched: Sequence[Problem] = (),
) -> Outcome:
    """Of one job; `launched`: all products of the launch that `measured` is of, this one among them, where there are
    more."""
    flops, delivered = sum(each.flops for each in launched) or request.problem.flops, request.delivered
    return Outcome(
        kernel=choice.kernel.name,
        config=dict(choice.config),
        why=choice.why,
        device=runner.device.name,
        product=ProductInfo(shape=delivered.shape, dtype=delivered.dtype, bytes=delivered.bytes),
        measured=measured,
        gflops=flops / (measured.kernel_ms * 1e6) if measured.kernel_ms > 0 else None,
        verification=verification,
        batch=max(1, len(launched)),
    )
