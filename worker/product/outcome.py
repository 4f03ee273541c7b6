"""What a product's job records of it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.models import Measured, Outcome, ProductInfo, Verification
from kernels.model.numerics import Problem
from kernels.selection.choose import Choice
from worker.device.runner import Runner


def outcome_of(
    single: Problem,
    choice: Choice,
    runner: Runner,
    measured: Measured,
    verification: Verification,
    launched: Sequence[Problem] = (),
) -> Outcome:
    """Of one job, whose product is `single`; `launched`: all products of the launch that `measured` is of, this one
    among them, where there are more."""
    flops = sum(each.flops for each in launched) or single.flops
    return Outcome(
        kernel=choice.kernel.name,
        config=dict(choice.config),
        why=choice.why,
        device=runner.device.name,
        product=ProductInfo(shape=single.product_shape, dtype=single.product_dtype, bytes=single.product_bytes),
        measured=measured,
        gflops=flops / (measured.kernel_ms * 1e6) if measured.kernel_ms > 0 else None,
        verification=verification,
        batch=max(1, len(launched)),
    )
