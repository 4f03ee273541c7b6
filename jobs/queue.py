"""Celery as the queue: its configuration with the reason for each setting, and the form of its messages.

A message is a hint with job id and attempt; the ledger has the job, and decides whether it is still to be run. The
ledger also sends the messages: Celery only consumes them.
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
SILENT_S = 4  # without an answer from the broker; it gives one every second, if only that there is no message
_PLACE = re.compile(r"@([a-z]+)@")

# Command-line options of a worker for which Celery has no settings. Workers need not know of one another (the ledger
# knows all), and each of these three features causes traffic and can hang.
WORKER_ARGUMENTS = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class _SteadyConnection(Connection):
    """Retries a lost broker every half second. Kombu's own intervals grow to 30 s, which would prolong an outage."""

    def ensure_connection(self, *args: Any, **options: Any) -> Connection:
        steps = {"interval_start": RECONNECT_S, "interval_step": 0, "interval_max": RECONNECT_S}
        connection: Connection = super().ensure_connection(*args, **steps, **options)  # type: ignore[no-untyped-call]
        return connection


class _SteadyAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
    Connection = _SteadyConnection


class QueueApp(Celery):  # type: ignore[misc]  # Celery has no types
    """Celery with a constant retry interval for a lost broker."""

    amqp_cls = _SteadyAMQP


def make_celery(settings: Settings) -> Celery:
    """The Celery application of workers. Does not connect yet."""
    app = QueueApp("matmul", set_as_current=False)
    app.conf.update(_what_it_carries(settings), **_connections(settings), **_workers(), **_tasks())
    return app


def _what_it_carries(settings: Settings) -> dict[str, Any]:
    return {
        "broker_url": _broker_url(settings),
        # JSON both ways: deserialising a message cannot run code.
        "task_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        # The queues are declared, so a misspelt name is an error and not a queue that nobody reads.
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
            # Fetched messages are not kept in Redis until they are acknowledged. Celery would redeliver them after a
            # visibility timeout, but the ledger's leases and the sweeper do so sooner, and with a fence. Keeping them
            # costs two round trips per job, and a worker whose acknowledgement failed because Redis was down never
            # fetched again (measured: kombu 5.7 still counts the message against the prefetch limit).
            "ack_emulation": False,
            # A Redis that vanished or stopped without closing its connections is noticed, also behind a proxy, whose
            # kernel answers keepalive probes. Until then a worker counts as ready and takes nothing. The first is also
            # how long its parent reads at its end, for what was on its way.
            "socket_timeout": SILENT_S,
            "health_check_interval": SILENT_S,
            "socket_connect_timeout": 2,
            **keepalive_options(settings),
        },
        "broker_use_ssl": tls_options(settings.redis_url.get_secret_value()) or None,
        "broker_connection_timeout": settings.redis_timeout_s,
        # Workers survive any outage of Redis, including one at their start.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,  # and a full Redis, whose refusal is no reason to exit
    }


def _workers() -> dict[str, Any]:
    return {
        # The task runs in a separate process, because only so can a hung or faulty kernel be killed. It is forked from
        # the parent, which has imported everything except CUDA (CUDA does not survive a fork): imports take most of the
        # start time. One process, because there is one device.
        "worker_pool": "prefork",
        "worker_pool_start_method": "fork",
        "worker_concurrency": 1,
        "worker_proc_alive_timeout": 60.0,  # importing CuPy takes longer than the default 4 s
        # With late acknowledgement this leaves all waiting messages in Redis, so that depth and position are true.
        "worker_prefetch_multiplier": 1,
        # How long a child that exited by itself blocks its worker, in case a result is still in transit. The default is
        # 10 s.
        "worker_lost_wait": 1.0,
        # A job continues when the broker connection breaks: the ledger decides whether it still counts.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # On a soft shutdown (SIGQUIT) the running job may finish.
        "worker_soft_shutdown_timeout": 30.0,
        "worker_enable_remote_control": False,  # no commands over the broker
        "worker_send_task_events": False,  # the ledger has the events
        "worker_hijack_root_logger": False,  # structlog has it
        "worker_redirect_stdouts": False,
    }


def _tasks() -> dict[str, Any]:
    return {
        # A message counts as held until its task has ended, so the worker does not prefetch another.
        "task_acks_late": True,
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        # The ledger's lease gives a lost job to another worker, with a fence and a limit on the runs. Celery's own
        # mechanisms would redeliver the same attempt, either endlessly (66 runs in 15 s were measured) or in addition
        # to the ledger's retry.
        "task_reject_on_worker_lost": False,
        "task_retry_on_worker_lost": False,
        "task_track_started": False,
    }


def bench_queue(device_name: str) -> str:
    """The queue of benchmarks for that device model. Each model has its own, because a benchmark must not be resumed on
    another model.
    """
    return BENCH_PREFIX + re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-")


def is_bench_queue(queue: str) -> bool:
    return queue.startswith(BENCH_PREFIX)


def broker_prefix(settings: Settings) -> str:
    """The prefix of Celery's own keys."""
    return f"{settings.key_prefix}broker:"


def _broker_url(settings: Settings) -> str:
    """The broker's URL for kombu, which writes redis+socket:// for redis-py's unix:// and calls the database
    `virtual_host`.
    """
    url = without_tls_options(settings.redis_url.get_secret_value())
    if url.startswith("unix://"):
        return url.replace("unix://", "redis+socket://", 1).replace("db=", "virtual_host=")
    return url


def message_format(app: Celery) -> MessageFormat:
    """A template of Celery's own message, with placeholders for the fields that differ from job to job. The ledger's
    scripts fill it in and push it, so that a job is recorded and its message sent in one step.
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
    """The ledger on that Redis, which sends its messages to the broker on the same server. Does not connect yet."""
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
    """The number of messages in the broker's queue that no worker has fetched. Raises StoreUnavailable."""
    # One list: other priorities than the default would have lists of their own, and none is used.
    waiting: Any = client.llen(f"{broker_prefix(settings)}{queue}")
    return int(waiting)
