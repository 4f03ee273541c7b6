"""Celery as the queue: its configuration with the reason for each setting, and the form of its messages.

A message is a hint: job id and attempt. What the job is, and whether it still is to be run, the ledger says. The ledger
also sends it: Celery only consumes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import redis
from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.serialization import dumps

from jobs.ledger.limits import Limits, QuotaOf, no_quota
from jobs.ledger.messages import MessageFormat
from jobs.ledger.redis import RedisLedger
from jobs.matrices.factory import bounds_of
from jobs.redis.client import keepalive_options, translated
from jobs.redis.connections import beside
from jobs.redis.replicas import ReplicaWait
from jobs.setting_groups.redis_tls import tls_options, without_tls_options
from jobs.settings import Settings

RUN_TASK = "matmul.run"  # args: job id, attempt
PLACES = ("job", "attempt", "name", "hard", "soft", "name", "job", "name", "queue", "name", "number")
QUEUES = ("gpu", "cpu")  # one for each device class; benchmarks have one for each model: `bench_queue`
BENCH_PREFIX = "bench-"
RECONNECT_S = 0.5
_PLACE = re.compile(r"@([a-z]+)@")

# What a worker is started with beside the configuration: Celery has no settings for these. Workers need not know of
# one another (the ledger knows all), and each of the three is traffic and a way to hang.
WORKER_ARGUMENTS = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class _SteadyConnection(Connection):
    """Looks for a lost broker every half second. Kombu's own steps grow to 30 s, all of it added to an outage."""

    def ensure_connection(self, *args: Any, **options: Any) -> Connection:
        steps = {"interval_start": RECONNECT_S, "interval_step": 0, "interval_max": RECONNECT_S}
        connection: Connection = super().ensure_connection(*args, **steps, **options)  # type: ignore[no-untyped-call]
        return connection


class _SteadyAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
    Connection = _SteadyConnection


class QueueApp(Celery):  # type: ignore[misc]  # Celery has no types
    """Celery, but that a lost broker is looked for steadily."""

    amqp_cls = _SteadyAMQP


def make_celery(settings: Settings) -> Celery:
    """The Celery application of workers. Connects to nothing yet."""
    app = QueueApp("matmul", set_as_current=False)
    app.conf.update(_what_it_carries(settings), **_connections(settings), **_workers(), **_tasks())
    return app


def _what_it_carries(settings: Settings) -> dict[str, Any]:
    return {
        "broker_url": _broker_url(settings),
        # JSON both ways: nothing that is read can run code.
        "task_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        # The queues are named, so a misspelt one is an error and not a queue that nobody reads.
        "task_queues": [Queue(name) for name in QUEUES],  # type: ignore[no-untyped-call]
        "task_default_queue": QUEUES[-1],
        "task_create_missing_queues": False,
        # No result backend: results are in the ledger, written with a fence.
        "result_backend": None,
        "task_ignore_result": True,
    }


def _connections(settings: Settings) -> dict[str, Any]:
    return {
        "broker_transport_options": {
            "global_keyprefix": broker_prefix(settings),
            # Messages that are fetched are not kept a second time in Redis until they are acknowledged. Celery would
            # redeliver those after a visibility timeout; the ledger's leases and the sweeper do it sooner, and with a
            # fence. Kept, they cost two round trips a job, and a worker whose acknowledgement met a Redis that was
            # just down never fetched again (measured: kombu 5.7 still counts the message against the prefetch limit).
            "ack_emulation": False,
            # Half-open connections end: a worker does not wait for a Redis that moved away without a word.
            "socket_timeout": 30,
            "socket_connect_timeout": 2,
            **keepalive_options(settings),
            "health_check_interval": 25,
        },
        "broker_use_ssl": tls_options(settings.redis_url.get_secret_value()) or None,
        "broker_connection_timeout": settings.redis_timeout_s,
        # Workers outlive any outage of Redis, also one at their start.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # and a full Redis: its refusal is no reason to end
    }


def _workers() -> dict[str, Any]:
    return {
        # A process of its own for the task: only so can a hung or poisoned kernel be ended. Forked off the parent: that
        # has imported all a child needs but CUDA, which does not survive a fork, and importing takes most of a start's
        # time. One, because the device is one.
        "worker_pool": "prefork",
        "worker_pool_start_method": "fork",
        "worker_concurrency": 1,
        "worker_proc_alive_timeout": 60.0,  # importing CuPy takes longer than the default 4 s
        # With late acknowledgement this leaves all waiting messages in Redis, so that depth and position are true.
        "worker_prefetch_multiplier": 1,
        # How long a child that ended by itself blocks its worker: a result might be on its way. The default is 10 s.
        "worker_lost_wait": 1.0,
        # A job whose connection broke goes on: the ledger decides whether it still counts.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # On a soft shutdown (SIGQUIT) the running job may end.
        "worker_soft_shutdown_timeout": 30.0,
        "worker_enable_remote_control": False,  # no commands over the broker
        "worker_send_task_events": False,  # the ledger has the events
        "worker_hijack_root_logger": False,  # structlog has it
        "worker_redirect_stdouts": False,
    }


def _tasks() -> dict[str, Any]:
    return {
        # A message counts as held until its task has ended, so the worker fetches no second one meanwhile.
        "task_acks_late": True,
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        # The ledger's lease gives a lost job to another worker, with a fence and a cap on the runs. Celery's own ways
        # would redeliver the same attempt: without end (66 runs in 15 s were measured), or beside the ledger's retry.
        "task_reject_on_worker_lost": False,
        "task_retry_on_worker_lost": False,
        "task_track_started": False,
    }


def bench_queue(device_name: str) -> str:
    """Where benchmarks for devices of that model wait: a resumed one must not go on on another model."""
    return BENCH_PREFIX + re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-")


def is_bench_queue(queue: str) -> bool:
    return queue.startswith(BENCH_PREFIX)


def broker_prefix(settings: Settings) -> str:
    """What Celery's own keys start with."""
    return f"{settings.key_prefix}broker:"


def _broker_url(settings: Settings) -> str:
    """redis-py says unix://, kombu says redis+socket:// and calls the database `virtual_host`."""
    url = without_tls_options(settings.redis_url.get_secret_value())
    if url.startswith("unix://"):
        return url.replace("unix://", "redis+socket://", 1).replace("db=", "virtual_host=")
    return url


def message_format(app: Celery) -> MessageFormat:
    """Celery's own message, with places for what differs from job to job.

    The ledger's scripts fill it in and push it, so that a job is recorded and its message sent in one step.
    """
    name = "@job@.@attempt@"
    message = app.amqp.as_task_v2(
        name,
        RUN_TASK,
        args=("@job@", "@attempt@"),
        soft_time_limit="@soft@",
        time_limit="@hard@",
        ignore_result=True,
        argsrepr="@job@",
        kwargsrepr="",
        origin="ledger",
    )
    content_type, encoding, body = dumps(message.body, serializer="json")  # type: ignore[no-untyped-call]
    carried = {
        "body": body,
        "content-type": content_type,
        "content-encoding": encoding,
        "headers": message.headers,
        "properties": {
            "correlation_id": name,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "@queue@"},
            "priority": 0,
            "body_encoding": None,  # the body is text, which is never encoded again
            "delivery_tag": f"{name}.@number@",
        },
    }
    return MessageFormat(lists=app.conf.broker_transport_options["global_keyprefix"], template=_template(carried))


def _template(carried: Mapping[str, Any]) -> str:
    """The message for Lua's `string.format`, whose arguments are those of `message_of` in the ledger's scripts."""
    text = json.dumps(carried)
    for number in ("@attempt@", "@soft@", "@hard@"):
        text = text.replace(f'\\"{number}\\"', number).replace(f'"{number}"', number)
    text = text.replace("@job@.@attempt@", "@name@").replace("%", "%%")
    assert tuple(_PLACE.findall(text)) == PLACES, "the ledger's scripts fill in another order"
    return _PLACE.sub(lambda place: "%.3f" if place[1] in ("soft", "hard") else "%s", text)


def make_ledger(
    settings: Settings,
    client: redis.Redis,
    quota_of: QuotaOf = no_quota,
    *,
    when_unreadable: Callable[[], object] = lambda: None,
) -> RedisLedger:
    """The ledger on that Redis, which sends its messages to the broker there. Connects to nothing yet."""
    with make_celery(settings) as app:
        messages = message_format(app)
    return RedisLedger(
        client,
        prefix=settings.key_prefix,
        messages=messages,
        bounds=bounds_of(settings),
        max_ended=Limits(settings.max_ended_jobs, settings.max_ended_jobs_per_key),
        idempotency_ttl_s=settings.idempotency_ttl_s,
        when_unreadable=when_unreadable,
        quota_of=quota_of,
        replicas=ReplicaWait(beside(client), settings),
    )


@translated()
def waiting_messages(client: redis.Redis, settings: Settings, queue: str) -> int:
    """Messages in the broker's queue that no worker has fetched. Raises StoreUnavailable."""
    # One list: other priorities than the default would have lists of their own, and none is used.
    waiting: Any = client.llen(f"{broker_prefix(settings)}{queue}")
    return int(waiting)
