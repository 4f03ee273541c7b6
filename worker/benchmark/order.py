"""The order in which cases are measured: shuffled, the same in every attempt, and problem by problem. Shuffling spreads
a drift of the device over all kernels. Problem by problem, operands are made once, and the baseline runs close in time
to the cases compared with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from jobs.benchmarks.cases import Case
from kernels.model.numerics import Problem


def shuffled_runs(cases: Sequence[Case], rounds: int, seed: int) -> Iterator[tuple[int, Case]]:
    """Every case in every round; skipped cases come first, and only once."""
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
