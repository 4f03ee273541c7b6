"""The hub: one subscription per process to every job change, which wakes those who wait for one job, and to the answers
that are meant for this process: small products of jobs that its callers wait for.

While the subscription is down, waiters look into the ledger twice a second instead.
"""

from __future__ import annotations

import asyncio
import secrets
from types import TracebackType
from typing import Self

import redis
import structlog
from redis.asyncio.client import PubSub

from jobs.ledger.codec import job_from_answer
from jobs.models import Job
from jobs.redis.client import connect_async
from jobs.settings import Settings
from jobs.states import JobState

POLL_S = 0.5  # how often a waiter looks for itself while the hub is deaf
RECHECK_S = 5.0  # and while it hears: publications are not kept for a listener that was away
RECONNECT_S = 0.25
CLOSE_S = 1.0
SILENCE_S = 2.0  # without a message for so long, the hub asks whether the server is still there

_TERMINAL = frozenset(state.value.encode() for state in JobState if state.is_terminal)
log = structlog.get_logger()


class Watch:
    """One waiter's ear for one job; enter it before the job can change. `ends_only`: other changes are let pass."""

    def __init__(self, hub: ChangeHub, job_id: str, *, ends_only: bool) -> None:
        self._hub = hub
        self._job_id = job_id.encode()
        self._ends_only = ends_only
        self._woken = False
        self._sleeping: asyncio.Future[None] | None = None
        self.answer: Job | None = None  # the job with its product, where that was sent along

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
        """True when it is time to look at the job; False where `timeout_s` passed first, or the service stops."""
        pause_s = min(timeout_s, RECHECK_S if self._hub.listening else POLL_S)
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
    """Reads `<prefix>changes`, whose messages are `<job id> <version> <state>`, and `<prefix>answers:<name>`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._watches: dict[bytes, set[Watch]] = {}
        self.name = secrets.token_hex(8)  # of this process
        self._messages = 0  # heard so far, of any kind
        self.listening = False
        self._closed = asyncio.Event()

    @property
    def closing(self) -> bool:
        return self._closed.is_set()

    def watch(self, job_id: str, *, ends_only: bool = False) -> Watch:
        return Watch(self, job_id, ends_only=ends_only)

    def add(self, job_id: bytes, watch: Watch) -> None:
        self._watches.setdefault(job_id, set()).add(watch)

    def remove(self, job_id: bytes, watch: Watch) -> None:
        watches = self._watches[job_id]
        watches.discard(watch)
        if not watches:
            del self._watches[job_id]

    def close(self) -> None:
        """Sends every waiter home, and ends `run`: the service stops."""
        self._closed.set()
        self._wake_all()

    async def run(self) -> None:
        """Listens until `close`; a lost connection is opened again.

        Not to be cancelled: redis-py sends with `asyncio.wait_for`, which before Python 3.12 may swallow that.
        """
        while not self.closing:
            try:
                await self._listen()
            except (redis.RedisError, OSError) as error:
                if self.listening:
                    log.warning("job changes are not heard; waiters poll", error=type(error).__name__)
            finally:
                self.listening = False
                self._wake_all()
            if not self.closing:
                await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        """Raises redis.RedisError once the connection is of no use."""
        async with connect_async(self._settings) as client, client.pubsub() as subscription:
            prefix = self._settings.key_prefix
            await subscription.subscribe(f"{prefix}changes", f"{prefix}answers:{self.name}")
            reading = asyncio.create_task(self._read(subscription))
            try:
                await self._watch_over(subscription, reading)
            finally:
                reading.cancel()
                await asyncio.wait({reading}, timeout=CLOSE_S)  # it holds the connection, which is closed next

    async def _watch_over(self, subscription: PubSub, reading: asyncio.Task[None]) -> None:
        """Until `close`: asks a server that is silent for long whether it is there. Raises what ended the reading."""
        closed = asyncio.create_task(self._closed.wait())
        try:
            while not closed.done():
                before = self._messages
                await _pause(SILENCE_S, reading, closed)
                if self._messages == before and not closed.done():
                    await subscription.ping()
                    await _pause(self._settings.redis_timeout_s, reading, closed)
                    if self._messages == before and not closed.done():
                        raise redis.TimeoutError("the server does not answer")
        finally:
            closed.cancel()

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
                case [b"subscribe", *_]:
                    self.listening = True
                    self._wake_all()  # what changed before is not told again

    def _heard(self, data: bytes) -> None:
        job_id, _, rest = data.partition(b" ")
        if watches := self._watches.get(job_id):
            ended = rest.rpartition(b" ")[2] in _TERMINAL
            for watch in watches:
                watch.notify(ended=ended)

    def _answered(self, data: bytes) -> None:
        """One that cannot be read, as of another version, must not end the listening: its caller looks for itself."""
        try:
            job = job_from_answer(data)
        except (ValueError, KeyError) as error:
            log.warning("an answer could not be read; its caller looks for itself", error=type(error).__name__)
            return
        for watch in self._watches.get(job.id.encode(), ()):
            watch.answer = job
            watch.wake()

    def _wake_all(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()


async def _pause(seconds: float, reading: asyncio.Task[None], closed: asyncio.Task[bool]) -> None:
    """Until something ends. Raises what ended the reading."""
    await asyncio.wait({reading, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        reading.result()
