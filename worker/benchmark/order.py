"""In which order cases are measured: shuffled, the same in every attempt, and problem by problem.

Shuffled, so that a device that grows warm or slow over time does so for no kernel alone; problem by problem, so that
operands are made once and the baseline runs close to what is held against it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from jobs.benchmarks.cases import Case
from kernels.model.numerics import Problem


def shuffled_runs(cases: Sequence[Case], rounds: int, seed: int) -> Iterator[tuple[int, Case]]:
    """Every case in every round; what is skipped comes first, and once."""
    yield from ((0, case) for case in cases if case.skip is not None)
    groups: dict[Problem, list[Case]] = {}
    for case in cases:
        if case.skip is None:
            groups.setdefault(case.problem, []).append(case)
    for number in range(rounds):
        shuffled = random.Random(f"{seed}:{number}")
        problems = list(groups)
        shuffled.shuffle(problems)
        for problem in problems:
            of_problem = list(groups[problem])
            shuffled.shuffle(of_problem)
            yield from ((number, case) for case in of_problem)
