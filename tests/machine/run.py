"""Plays lives on both ledgers."""

from __future__ import annotations

from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from tests.machine.played import Played
from tests.machine.two_ledgers import TwoLedgers
from tests.support.ledger.ledgers import memory_bench, redis_bench

STEPS_OF_A_LIFE = 50


def play(server: EmbeddedServer, *, lives: int, seed: int | None = None) -> Played:
    """So many lives, of STEPS_OF_A_LIFE each. The same seed plays the same ones.

    Raises AssertionError where the ledgers disagree, or what must hold does not.
    """
    prefix, played = new_id("machine") + ":", Played()
    with redis_bench(server, prefix) as redis:
        client = redis.clock.client
        assert client is not None

        def fresh() -> TwoLedgers:
            if keys := list(client.scan_iter(f"{prefix}*", count=1000)):
                client.delete(*keys)
            redis.clock.now_us = memory_bench().clock.now_us
            redis.clock.advance(0)
            played.lives += 1
            return TwoLedgers(memory_bench(), redis, played)

        if seed is not None:
            setattr(fresh, "_hypothesis_internal_use_seed", seed)  # noqa: B010  # what hypothesis.seed does to a class
        run_state_machine_as_test(
            cast(type[RuleBasedStateMachine], fresh),  # hypothesis calls it and asks no more
            settings=settings(
                max_examples=lives,
                stateful_step_count=STEPS_OF_A_LIFE,
                deadline=None,
                database=None,
                suppress_health_check=[*HealthCheck],
            ),
        )
    return played
