"""The search for a fast config, with costs out of a formula."""

from __future__ import annotations

import math
from itertools import product

import pytest

from jobs.benchmarks.spec import TuneSpec
from kernels.model.entry.config import Parameter, TileConfig
from worker.benchmark.search import FINALISTS, Cost, halving_rounds, search

TILES = Parameter("tile", (8, 16, 32, 64, 128, 256), 32, "tile")
STEPS = Parameter("step", (1, 2, 4, 8, 16, 32, 64), 8, "steps of k")
PARAMETERS = (TILES, STEPS)
SPACE: list[TileConfig] = [
    dict(zip(("tile", "step"), values, strict=True)) for values in product(TILES.values, STEPS.values)
]
BEST: TileConfig = {"tile": 64, "step": 16}


def bowl(config: TileConfig, number: int) -> float:
    """One valley: each step away from BEST costs."""
    return 1 + sum(math.log2(config[name] / BEST[name]) ** 2 for name in BEST)


class Recorded:
    """A cost function that remembers what it was asked."""

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self.asked: list[tuple[TileConfig, int]] = []

    def __call__(self, config: TileConfig, number: int) -> float | None:
        self.asked.append((config, number))
        return self.cost(config, number)

    def in_round(self, number: int) -> list[TileConfig]:
        return [config for config, asked_in in self.asked if asked_in == number]


def finalists(cost: Cost, *, seed: str = "0", **tune: object) -> list[TileConfig]:
    found = search(SPACE, PARAMETERS, TuneSpec.model_validate(tune), seed, cost)
    return [SPACE[place] for place in found]


def test_a_race_times_every_config_and_halves_the_field() -> None:
    asked = Recorded(bowl)
    found = finalists(asked)
    assert found[0] == BEST and len(found) == FINALISTS
    assert tuple(len(asked.in_round(number)) for number in range(4)) == halving_rounds(len(SPACE)) == (42, 21, 11, 6)
    assert len(asked.asked) == sum(halving_rounds(len(SPACE)))
    slowest_left = max(bowl(config, 0) for config in asked.in_round(1))
    assert slowest_left <= min(bowl(config, 0) for config in SPACE if config not in asked.in_round(1))


@pytest.mark.parametrize("seed", [str(seed) for seed in range(10)])
def test_a_small_budget_still_finds_the_minimum(seed: str) -> None:
    asked = Recorded(bowl)
    found = finalists(asked, seed=seed, budget=20)
    assert len(asked.in_round(0)) == 20
    assert len({tuple(config.items()) for config in asked.in_round(0)}) == 20
    assert found[0] == BEST


def test_nearest_configs_come_after_random_ones() -> None:
    asked = Recorded(bowl)
    finalists(asked, budget=20)
    first, later = asked.in_round(0)[:10], asked.in_round(0)[10:]
    spread = [sum(bowl(config, 0) for config in group) / len(group) for group in (first, later)]
    assert spread[1] < spread[0]


def test_the_same_seed_asks_the_same() -> None:
    runs = [Recorded(bowl) for _ in range(3)]
    for run, seed in zip(runs, ("a", "a", "b"), strict=True):
        finalists(run, seed=seed, budget=15)
    assert runs[0].asked == runs[1].asked != runs[2].asked


def test_what_does_not_run_never_wins() -> None:
    def broken(config: TileConfig, number: int) -> float | None:
        return None if config["tile"] >= 64 else bowl(config, number)

    assert finalists(broken)[0] == {"tile": 32, "step": 16}
    assert {config["tile"] for config in finalists(broken, budget=12)} <= {8, 16, 32}
    assert finalists(lambda config, number: None) == []
    assert finalists(lambda config, number: None, budget=12) == []


def test_a_config_may_fail_in_a_later_heat() -> None:
    assert BEST not in finalists(lambda config, number: None if number and config == BEST else bowl(config, number))


def test_later_rounds_overrule_a_lucky_start() -> None:
    lucky = {"tile": 8, "step": 1}
    found = finalists(lambda config, number: 0.5 if config == lucky and number == 0 else bowl(config, number))
    assert found[0] == BEST and lucky not in found


def test_all_are_finalists_where_there_is_no_choice_to_make() -> None:
    asked = Recorded(bowl)
    assert sorted(map(str, finalists(asked, strategy="exhaustive"))) == sorted(map(str, SPACE))
    assert len(finalists(asked, strategy="exhaustive", budget=7)) == 7
    few = search(SPACE[:FINALISTS], PARAMETERS, TuneSpec(), "0", asked)
    assert sorted(few) == list(range(FINALISTS))
    assert asked.asked == []


def test_random_goes_by_kin_even_where_all_could_be_tried() -> None:
    asked = Recorded(bowl)
    assert finalists(asked, strategy="random")[0] == BEST
    assert len(asked.in_round(0)) == len(SPACE)
    half = asked.in_round(0)[: len(SPACE) // 2]
    best_of_half = min(half, key=lambda config: bowl(config, 0))
    following = asked.in_round(0)[len(half)]
    assert sum(abs(p.values.index(following[p.name]) - p.values.index(best_of_half[p.name])) for p in PARAMETERS) <= 2
