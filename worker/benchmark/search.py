"""Searches for the fastest of a kernel's configs. Pure: a function argument gives the cost of a config.

A race, after successive halving (Jamieson and Talwalkar, 2016): all contenders are timed briefly, the faster half twice
as long, and so on until a few are left that are worth timing in full. Where there are more configs than the budget
allows, random ones are timed first and then, one by one, those nearest to the fastest known: hill climbing, but to the
nearest config rather than to a neighbour, because constraints on whole configs leave many without a valid neighbour.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from jobs.benchmarks.spec import TuneSpec
from kernels.model.entry.config import Parameter, TileConfig

FINALISTS = 4
RANDOM_SHARE = 0.5  # share of the budget for random configs

Cost = Callable[[TileConfig, int], float | None]  # time of a config in a round, in any unit; None: it does not run


def halving_rounds(contenders: int) -> tuple[int, ...]:
    """How many configs each round of successive halving times, if none of them fails."""
    sizes = []
    while contenders > FINALISTS:
        sizes.append(contenders)
        contenders = _faster_half(contenders)
    return tuple(sizes)


def search(
    space: Sequence[TileConfig], parameters: Sequence[Parameter], tune: TuneSpec, seed: str, cost: Cost
) -> tuple[int, ...]:
    """Indices in `space` of the configs that are worth timing in full: at most FINALISTS, fewer if few can run. The
    same seed and costs give the same calls of `cost` in the same order, each config once per round. With `exhaustive`,
    or if the space is small enough, all configs are finalists and `cost` is not called.
    """
    rng = random.Random(seed)
    budget = min(tune.budget, len(space))
    if tune.strategy == "exhaustive" or len(space) <= FINALISTS:
        return tuple(rng.sample(range(len(space)), budget))
    goes_blind = tune.strategy == "auto" and budget == len(space)
    first = rng.sample(range(len(space)), budget if goes_blind else max(1, int(budget * RANDOM_SHARE)))
    costs = _timed_round(space, first, 0, cost)
    tried = set(first)
    places = _places(space, parameters)
    while len(tried) < budget:
        near = _nearest_untried(places, costs, tried)
        tried.add(near)
        costs |= _timed_round(space, [near], 0, cost)
    return _race(space, costs, rng, cost)


def _timed_round(space: Sequence[TileConfig], contenders: Sequence[int], number: int, cost: Cost) -> dict[int, float]:
    """The cost of each contender, without those that cannot run."""
    found = {place: cost(space[place], number) for place in contenders}
    return {place: spent for place, spent in found.items() if spent is not None}


def _race(space: Sequence[TileConfig], costs: dict[int, float], rng: random.Random, cost: Cost) -> tuple[int, ...]:
    """Times configs in rounds that keep the faster half, from the first round's costs to the finalists, the fastest
    first."""
    number = 0
    while len(costs) > FINALISTS:
        left = _fastest_first(costs)[: _faster_half(len(costs))]
        if len(left) <= FINALISTS:
            return tuple(left)
        number += 1
        costs = _timed_round(space, rng.sample(left, len(left)), number, cost)
    return tuple(_fastest_first(costs))


def _faster_half(contenders: int) -> int:
    return max(FINALISTS, -(-contenders // 2))


def _fastest_first(costs: Mapping[int, float]) -> list[int]:
    return sorted(costs, key=lambda place: (costs[place], place))


def _places(space: Sequence[TileConfig], parameters: Sequence[Parameter]) -> list[tuple[int, ...]]:
    """Each config as the indices of its values among the allowed ones."""
    return [tuple(parameter.values.index(config[parameter.name]) for parameter in parameters) for config in space]


def _nearest_untried(places: Sequence[tuple[int, ...]], costs: Mapping[int, float], tried: set[int]) -> int:
    """The untried config with the fewest steps from the fastest known one; the first if none runs yet."""
    untried = [place for place in range(len(places)) if place not in tried]
    if not costs:
        return untried[0]
    best = places[_fastest_first(costs)[0]]
    return min(untried, key=lambda place: (_steps(best, places[place]), place))


def _steps(one: Sequence[int], other: Sequence[int]) -> int:
    """The distance: moves to an adjacent value, over all parameters."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))
