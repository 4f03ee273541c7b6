"""A share of a campaign, in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from jobs.formats.elements import Array
from jobs.settings import Settings
from kernels.model.numerics import DTYPES
from tests.campaign.backends import Backend, CpuBackend
from tests.campaign.data import operands
from tests.campaign.faults import FAULTS, Fault
from tests.campaign.scenes import Scene, clean, scene
from tests.campaign.tally import Result, Tally
from worker.check import verify

PER_SCENE = 10  # faults of a kind; fewer of a product whose check takes long
ELEMENTS = 1 << 21  # of operands and product, that the checks of a kind's faults in one product read together
CLEAN_SHARE = 0.4  # of the time, at most


@dataclass(frozen=True, slots=True)
class Share:
    """Every `processes`-th number, from `first` on: so many faults a kind, so many clean products."""

    device: str
    seed: int
    first: int
    processes: int
    faults: int
    clean: int
    seconds: float
    kernels: tuple[str, ...] = ()
    sketches: bool = False  # small products are checked as large ones are

    @property
    def numbers(self) -> Iterator[int]:
        return count(self.first, self.processes)


def backend_of(share: Share) -> Backend:
    if share.device == "cpu":
        return CpuBackend()
    from tests.campaign.gpu_backend import GpuBackend

    return GpuBackend(Settings(device=share.device), share.seed, share.kernels)


def run(share: Share) -> Result:
    result = Result({name: Tally() for name in FAULTS})
    whole = 0 if share.sketches else verify.MAX_DIRECT
    with threadpool_limits(1), mock.patch.object(verify, "MAX_DIRECT", whole):
        began, backend = time.monotonic(), backend_of(share)
        check_clean(backend, share, result, began + CLEAN_SHARE * share.seconds)
        inject(backend, share, result, began + share.seconds)
    return result


def check_clean(backend: Backend, share: Share, result: Result, ends_at: float) -> None:
    for number, _ in zip(share.numbers, range(share.clean), strict=False):
        if time.monotonic() > ends_at:
            return
        plan = clean(backend.ways, share.seed, number)
        made = backend.made(plan.way, plan.problem, *operands(plan.problem, plan.data, plan.rng, plan.way.accuracy))
        before = time.process_time()
        passed = made.passes(made.c, plan.rng)
        result.clean_seconds += time.process_time() - before
        result.clean[plan.way.kernel] += 1
        if not passed:
            result.refused.append(f"seed {share.seed}, number {number}: {plan.way}, {plan.data}, {plan.problem}")


def inject(backend: Backend, share: Share, result: Result, ends_at: float) -> None:
    """Until there are enough of each kind, or time is up."""
    has_complex = any(DTYPES[way.dtype].is_complex for way in backend.ways)
    wanted = [name for name, fault in FAULTS.items() if has_complex or not fault.of_complex]
    for number in share.numbers:
        if all(result.faults[name].injected >= share.faults for name in wanted) or time.monotonic() > ends_at:
            return
        drawn = scene(backend, share.seed, number)
        result.scenes += 1
        if drawn.truth.excess(drawn.c) > 1.0:
            result.outside.append(f"seed {share.seed}, {drawn}")
            continue
        for index, (name, fault) in enumerate(FAULTS.items()):
            rng = np.random.default_rng((share.seed, number, 2, index))
            left = share.faults - result.faults[name].injected
            if left > 0 and fault.data in ("", drawn.data) and fault.of_complex <= drawn.is_complex:
                _inject(backend, drawn, fault, min(left, _times(drawn)), rng, result.faults[name])


def _times(drawn: Scene) -> int:
    elements = sum(each.size for each in (*drawn.sent, drawn.c))
    return max(1, min(PER_SCENE, ELEMENTS // elements))


def _inject(backend: Backend, drawn: Scene, fault: Fault, times: int, rng: np.random.Generator, tally: Tally) -> None:
    for _ in range(times):
        spoilt = (
            _of_operands(backend, drawn, fault, rng) if fault.stage == "operands" else _of_product(drawn, fault, rng)
        )
        if spoilt is not None:
            c, passed = spoilt
            truth, is_late = drawn.truth, fault.stage != "product"
            in_noise = not is_late and truth.excess(c, told=True) <= 1.0
            tally.count(truth.excess(c), passed, drawn.way.accuracy, str(drawn), in_noise=in_noise)


def _of_product(drawn: Scene, fault: Fault, rng: np.random.Generator) -> tuple[Array, bool] | None:
    """What C becomes, and whether it passes; None where the fault does not apply."""
    c = drawn.c.copy()
    fault.spoil(drawn, c, rng)
    if c.tobytes() == drawn.c.tobytes():
        return None
    passes = drawn.made.passes_late if fault.stage == "late" else drawn.made.passes
    return c, passes(c, rng)


def _of_operands(backend: Backend, drawn: Scene, fault: Fault, rng: np.random.Generator) -> tuple[Array, bool] | None:
    sent = drawn.sent
    damaged = [each.copy() for each in sent]
    fault.spoil(drawn, damaged[rng.integers(2)], rng)
    c = drawn.shown(backend.made(drawn.way, drawn.asked, damaged[0], damaged[1]).c)
    if c.tobytes() == drawn.c.tobytes():
        return None
    return c, backend.damaged_passes(drawn.way, drawn.asked, sent, (damaged[0], damaged[1]), rng)
