"""The sweeper's own thread."""

from __future__ import annotations

from threading import Event, Thread

from structlog.testing import capture_logs

from jobs.queue import broker_prefix, make_ledger, waiting_messages
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.sweeper.sweeper import Sweeper
from tests.support.ledger.ledgers import new_job, settings_for
from tools.harness.api import until


def test_the_loop_outlives_a_killed_redis_and_finds_what_was_lost(own_server: EmbeddedServer) -> None:
    settings = settings_for(own_server, "t:").model_copy(update={"sweep_s": 0.02, "sweep_grace_s": 0.1})
    stop = Event()
    with connect(settings) as client:
        ledger = make_ledger(settings, client)
        sweeper = Sweeper(ledger, client, settings, sweep_matrices=lambda: 0)
        thread = Thread(target=sweeper.run_forever, args=(stop,))
        thread.start()
        try:
            until(lambda: bool(client.exists("t:lock:sweeper")))
            with capture_logs() as logs:
                own_server.kill()
                until(
                    lambda: [line for line in logs if line["event"] == "a sweep failed" and "refused" in line["cause"]]
                )
            own_server.start()
            ledger.submit(new_job(), max_queued=9, max_queued_per_owner=9)
            assert client.rpop(f"{broker_prefix(settings)}cpu")
            until(lambda: waiting_messages(client, settings, "cpu") == 1)
        finally:
            stop.set()
            thread.join(60)
        assert not thread.is_alive()
        assert not client.exists("t:lock:sweeper")
