"""The hub: one subscription per process to the answers addressed to it, which are the ends of jobs that its callers
wait for. While anyone waits for anything else, it also subscribes to all job changes, and wakes the waiters of each
job. While a subscription is down, its waiters poll the ledger twice a second instead.
"""

from __future__ import annotations

import asyncio
import secrets
from types import TracebackType
from typing import Self

import redis
import structlog
from redis.asyncio.client import PubSub

from jobs.ledger.ends import JobEnd, ends_from_answers
from jobs.redis.client import CONNECTION_LOST, connect_async
from jobs.settings import Settings
from jobs.states import TERMINAL

POLL_S = 0.5  # how often a waiter polls while the hub is not subscribed
RECHECK_S = 5.0  # and while it is: publications are not kept for a subscriber that was disconnected
RECONNECT_S = 0.25
CLOSE_S = 1.0
SILENCE_S = 2.0  # after this time without a message the hub pings the server, or reconnects

log = structlog.get_logger()


class Watch:
    """Waits for changes of one job; enter it before the job can change. `ends_only`: ignores other changes.
    `answers_only`: only for a job that was recorded for this process to answer (`NewJob.reply_to`).
    """

    def __init__(self, hub: ChangeHub, job_id: str, *, ends_only: bool, answers_only: bool) -> None:
        self._hub = hub
        self._job_id = job_id
        self._ends_only = ends_only
        self.answers_only = answers_only
        self._woken = False
        self._sleeping: asyncio.Future[None] | None = None
        self.answer: JobEnd | None = None

    def __enter__(self) -> Self:
        self._hub.add(self._job_id, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._hub.remove(self._job_id, self)

    def notify(self, *, ended: bool) -> None:
        if ended or not self._ends_only:
            self.wake()

    def wake(self) -> None:
        self._woken = True
        self._rise()

    def _rise(self) -> None:
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    async def change(self, timeout_s: float) -> bool:
        """True when it is time to read the job; False if `timeout_s` passed first, or the service stops."""
        pause_s = min(timeout_s, RECHECK_S if self._hub.hears(self) else POLL_S)
        if not self._woken and not self._hub.closing:
            await self._sleep(pause_s)
        look, self._woken = self._woken or pause_s < timeout_s, False
        return look and not self._hub.closing

    async def _sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._sleeping = loop.create_future()
        alarm = loop.call_later(seconds, self._rise)
        try:
            await self._sleeping
        finally:
            alarm.cancel()


class ChangeHub:
    """Reads `<prefix>answers:<name>` and `<prefix>changes`, a line of which is `<job id> <version> <state>`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watches: dict[str, set[Watch]] = {}
        self._of_changes = 0  # number of watches that need all changes
        self._changes_wanted = asyncio.Event()
        self.name = secrets.token_hex(8)  # of this process
        self._messages = 0  # messages received so far, of any kind
        self.listening = False  # for answers
        self._hears_changes = False
        self._closed = asyncio.Event()

    @property
    def closing(self) -> bool:
        return self._closed.is_set()

    def watch(self, job_id: str, *, ends_only: bool = False, answers_only: bool = False) -> Watch:
        return Watch(self, job_id, ends_only=ends_only, answers_only=answers_only)

    def hears(self, watch: Watch) -> bool:
        """Whether the subscription that this watch needs is active."""
        return self.listening if watch.answers_only else self._hears_changes

    def add(self, job_id: str, watch: Watch) -> None:
        self._watches.setdefault(job_id, set()).add(watch)
        if not watch.answers_only:
            self._of_changes += 1
            if not self._hears_changes:
                self._changes_wanted.set()

    def remove(self, job_id: str, watch: Watch) -> None:
        self._of_changes -= not watch.answers_only
        watches = self._watches[job_id]
        watches.discard(watch)
        if not watches:
            del self._watches[job_id]

    def close(self) -> None:
        """Wakes all waiters and ends `run`, because the service stops."""
        self._closed.set()
        self._wake_all()

    async def run(self) -> None:
        """Listens until `close`, and reconnects when the connection is lost.

        Not to be cancelled: redis-py sends with `asyncio.wait_for`, which before Python 3.12 may swallow that.
        """
        while not self.closing:
            try:
                await self._listen()
            except CONNECTION_LOST as error:
                if self.listening:
                    log.warning("job changes are not heard; waiters poll", error=type(error).__name__)
            finally:
                self.listening = self._hears_changes = False
                self._wake_all()
            if not self.closing:
                await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        """Listens on one connection. Raises redis.RedisError when it is broken."""
        async with connect_async(self._settings) as client, client.pubsub() as subscription:
            await subscription.subscribe(f"{self._settings.key_prefix}answers:{self.name}")
            reading = asyncio.create_task(self._read(subscription))
            try:
                await self._watch_over(subscription, reading)
            finally:
                reading.cancel()
                await asyncio.wait({reading}, timeout=CLOSE_S)  # it holds the connection, which is closed next

    async def _watch_over(self, subscription: PubSub, reading: asyncio.Task[None]) -> None:
        """Until `close`: subscribes to all changes while they are needed, and pings a server that has been silent for
        long. Raises the error that ended the reading.
        """
        closed = asyncio.create_task(self._closed.wait())
        asked = False  # whether subscribed to all changes
        try:
            while not closed.done():
                asked = await self._follow_the_wish(subscription, asked)
                before = self._messages
                wanted = asyncio.create_task(self._changes_wanted.wait())
                try:
                    await _pause(SILENCE_S, reading, closed, wanted)
                finally:
                    was_silent = wanted.cancel() and self._messages == before
                if was_silent and not closed.done():
                    await subscription.ping()
                    await _pause(self._settings.redis_timeout_s, reading, closed)
                    if self._messages == before and not closed.done():
                        raise redis.TimeoutError("the server does not answer")
        finally:
            closed.cancel()

    async def _follow_the_wish(self, subscription: PubSub, asked: bool) -> bool:
        """Subscribes to all changes or unsubscribes, as needed; returns whether it is subscribed."""
        wanted = self._changes_wanted.is_set() or self._of_changes > 0
        self._changes_wanted.clear()
        channel = f"{self._settings.key_prefix}changes"
        if wanted and not asked:
            await subscription.subscribe(channel)
        elif asked and not wanted:
            self._hears_changes = False
            await subscription.unsubscribe(channel)
        return wanted

    async def _read(self, subscription: PubSub) -> None:
        while True:
            reply = await subscription.parse_response(block=True)
            self._messages += 1
            match reply:
                case [b"message", bytes(channel), bytes(data)]:
                    if channel.endswith(b"changes"):
                        self._heard(data)
                    else:
                        self._answered(data)
                case [b"subscribe", bytes(channel), *_]:
                    if channel.endswith(b"changes"):
                        self._hears_changes = self._of_changes > 0
                    else:
                        self.listening = True
                    self._wake_all()  # earlier changes are not published again

    def _heard(self, data: bytes) -> None:
        for change in data.decode().split("\n"):
            job_id, _, state = change.split(" ")
            for watch in self._watches.get(job_id, ()):
                if not watch.answers_only:
                    watch.notify(ended=state in TERMINAL)

    def _answered(self, data: bytes) -> None:
        """Handles an answer. One that cannot be read, such as another version's, must not end the listening: its caller
        polls.
        """
        try:
            ends = ends_from_answers(data)
        except ValueError as error:
            log.warning("an answer could not be read; callers look for themselves", error=type(error).__name__)
            self._wake_all()
            return
        for end in ends:
            for watch in self._watches.get(end.job_id, ()):
                watch.answer = end
                watch.wake()

    def _wake_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()


async def _pause(seconds: float, reading: asyncio.Task[None], *others: asyncio.Task[bool]) -> None:
    """Waits for `seconds`, or until the hub closes. Raises the error that ended the reading."""
    await asyncio.wait({reading, *others}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        reading.result()
