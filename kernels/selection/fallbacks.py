"""How much faster than all others a kernel must be that leaves some operands to another, by what it finds in them.

Where it falls back it loses: it has looked at the operands in vain, and the other may be slower than what else would be
taken. It is chosen where it gains at least as much on other operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernels.catalog import BY_NAME
from kernels.model.entry.fallback import UNUSUAL, Fallback
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import Problem


def fallback_of(kernel: Kernel) -> Fallback[CudaKernel] | None:
    return kernel.fallback if isinstance(kernel, CudaKernel) else None


def worth_it(times_us: Mapping[str, float], problem: Problem, held_against: Mapping[str, float]) -> Iterable[str]:
    """Kernels that `auto` may choose, by these times of each. `held_against`: with what a guess may cost added."""
    steady = [us for name, us in held_against.items() if fallback_of(BY_NAME[name]) is None]
    for name, us in times_us.items():
        fallback = fallback_of(BY_NAME[name])
        if fallback is None or not steady or us * _worth(fallback, times_us, problem, min(steady)) <= min(steady):
            yield name


def _worth(fallback: Fallback[CudaKernel], times_us: Mapping[str, float], problem: Problem, steady_us: float) -> float:
    """Times as fast as all others."""
    instead_us = times_us.get(fallback.kernel.name)
    if fallback.lost_us is None or instead_us is None:
        return fallback.worth(problem)
    lost = (fallback.lost_us(problem) + instead_us) / steady_us
    return max(fallback.worth(problem), float(lost ** (UNUSUAL / (1 - UNUSUAL))))
