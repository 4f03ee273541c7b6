"""What a product's job records of it."""

from __future__ import annotations

from dataclasses import replace

from jobs.models import Measured, Outcome, ProductInfo, Verification
from kernels.model.numerics import Problem, gflops
from kernels.selection.choose import Choice
from worker.device.runner import Runner


def outcome_of(
    single: Problem, choice: Choice, runner: Runner, measured: Measured, verification: Verification, batch: int = 1
) -> Outcome:
    """Of one job, whose product is `single`; `batch`: of how many jobs the launch was that `measured` is of."""
    return Outcome(
        kernel=choice.kernel.name,
        config=dict(choice.config),
        why=choice.why,
        device=runner.device.name,
        product=ProductInfo(shape=single.product_shape, dtype=single.product_dtype, bytes=single.product_bytes),
        measured=measured,
        gflops=gflops(replace(single, batch=single.batch * batch), measured.kernel_ms),
        verification=verification,
        batch=batch,
    )
