"""`python -m service.pause on|off|show`: while the service is paused it accepts requests, but no worker starts a job. A
single queue may be paused too. The flags are in the ledger, where the script that starts jobs checks them, so they
survive restarts and workers need not be notified.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import redis

from jobs.errors import InvalidSettings, MatmulError
from jobs.queue import BENCH_PREFIX, QUEUES
from jobs.redis.client import connect, translated
from jobs.starting.wrong_settings import checked_settings

PAUSED = "Paused: jobs are accepted and wait, and no worker starts one. `python -m service.pause off` ends that."
QUEUE_PAUSED = "Queue {0} is paused: its jobs wait. `python -m service.pause off --queue {0}` ends that."
LOOK_EVERY_S = 0.2
_OF_QUEUE = "paused:"


class Pause:
    """The pause flags, of one queue or of the whole service. Raises StoreUnavailable."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client, self._counts, self._leases = client, f"{prefix}counts", f"{prefix}leases"

    @translated()
    def begin(self, queue: str | None = None) -> None:
        """Pauses. Running jobs continue to their end."""
        self._client.hset(self._counts, _field(queue), "1")

    @translated()
    def end(self, queue: str | None = None) -> None:
        """Ends the pause. The sweeper then sends the messages of waiting jobs again."""
        self._client.hdel(self._counts, _field(queue))

    @translated()
    def is_on(self) -> bool:
        """Whether the whole service is paused."""
        return bool(self._client.hexists(self._counts, "paused"))

    @translated()
    def queues(self) -> Sequence[str]:
        """The queues that are paused individually."""
        found: Any = self._client.hkeys(self._counts)
        return sorted(name.decode().removeprefix(_OF_QUEUE) for name in found if name.startswith(_OF_QUEUE.encode()))

    def warnings(self) -> list[str]:
        """A sentence for each pause."""
        return [*([PAUSED] if self.is_on() else []), *(QUEUE_PAUSED.format(queue) for queue in self.queues())]

    @translated()
    def running(self) -> int:
        """The number of jobs that still run."""
        found: Any = self._client.zcard(self._leases)
        return int(found)

    def wait_until_idle(self) -> None:
        """Returns once no job runs."""
        while self.running():
            time.sleep(LOOK_EVERY_S)


def _field(queue: str | None) -> str:
    return "paused" if queue is None else _OF_QUEUE + queue


def _check_queue(name: str | None) -> None:
    """Raises InvalidSettings for a misspelt queue, whose pause would have no effect."""
    if name is not None and name not in QUEUES and not name.startswith(BENCH_PREFIX):
        raise InvalidSettings(f"There is no queue {name!a}; there are {', '.join(QUEUES)} and {BENCH_PREFIX}….")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m service.pause", description="Pauses the starting of jobs.")
    parser.add_argument("what", choices=("on", "off", "show"))
    parser.add_argument("--queue", help="that queue alone, such as gpu; else the whole service")
    parser.add_argument("--wait", action="store_true", help="with `on`: return once no job runs any more")
    chosen = parser.parse_args(arguments)
    try:
        settings = checked_settings()
        with connect(settings) as client:
            pause = Pause(client, settings.key_prefix)
            if chosen.what == "on":
                _check_queue(chosen.queue)
                pause.begin(chosen.queue)
                if chosen.wait:
                    pause.wait_until_idle()
            elif chosen.what == "off":
                pause.end(chosen.queue)
            queues = "".join(f"; queue {name} paused" for name in pause.queues())
            print(f"{'paused' if pause.is_on() else 'not paused'}{queues}; {pause.running()} jobs run")
    except MatmulError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
