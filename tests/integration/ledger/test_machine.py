"""Random lives of random jobs, step by step on both ledgers: they must agree on all, and keep their promises.
`make machine` plays more of them.
"""

from __future__ import annotations

from jobs.redis.embedded import EmbeddedServer
from tests.machine.run import play

LIVES = 30


def test_both_ledgers_live_the_same_lives(valkey: EmbeddedServer) -> None:
    played = play(valkey, lives=LIVES)
    assert played.steps > LIVES
