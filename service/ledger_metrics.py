"""The metrics of jobs, queues, workers and matrices, read from the ledger on each request of /metrics."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.ledger.totals import totals_of
from jobs.queue import QUEUES
from jobs.redis.persistence import memory_of, persistence_of
from service.context import Context


class LedgerCollector(Collector):
    """Collects the metrics of jobs, queues, workers and matrices on request. Raises StoreUnavailable."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        yield self._jobs()
        yield from self._totals()
        paused = "Whether the service is paused: no job is started."
        yield GaugeMetricFamily("matmul_paused", paused, value=float(self._context.pause.is_on()))
        yield from self._queues()
        yield self._workers()
        stored = self._context.store.used_bytes()
        yield GaugeMetricFamily("matmul_store_bytes", "Bytes of matrices kept.", value=stored)
        limit_bytes = self._context.settings.store_bytes
        yield GaugeMetricFamily("matmul_store_limit_bytes", "Most bytes of matrices kept.", value=limit_bytes)
        yield from self._redis()
        yield from self._memory()

    def _jobs(self) -> Metric:
        jobs = GaugeMetricFamily("matmul_jobs", "Jobs that are remembered, by state.", labels=("state",))
        for state, count in self._context.ledger.counts().items():
            jobs.add_metric((state.value,), count)
        return jobs

    def _totals(self) -> Iterator[Metric]:
        """Totals since the ledger was created, exact across restarts."""
        totals = totals_of(self._context.client, self._context.settings.key_prefix)
        ended = CounterMetricFamily("matmul_jobs_ended", "Jobs that ended, by state.", labels=("state",))
        for state, count in totals.ended.items():
            ended.add_metric((state,), count)
        yield ended
        failed = "Attempts that failed, by type of error, also where the job ran again."
        attempts = CounterMetricFamily("matmul_failed_attempts", failed, labels=("error",))
        for error, count in totals.attempts_failed.items():
            attempts.add_metric((error,), count)
        yield attempts
        yield CounterMetricFamily(
            "matmul_dead_lettered_jobs", "Jobs that used up their attempts.", value=totals.dead_lettered
        )
        dead = "Of those, the ones that were neither retried nor forgotten since."
        yield GaugeMetricFamily("matmul_dead_letters", dead, value=totals.dead)

    def _queues(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("matmul_queue_waiting_jobs", "Jobs that wait, by queue.", labels=("queue",))
        age = GaugeMetricFamily(
            "matmul_queue_oldest_seconds", "How long the oldest job has waited, in seconds.", labels=("queue",)
        )
        for queue, depth in self._context.ledger.depths(sorted({*QUEUES, *self._context.ledger.queues()})).items():
            waiting.add_metric((queue,), depth.waiting)
            age.add_metric((queue,), depth.oldest_age_s or 0.0)
        return iter((waiting, age))

    def _workers(self) -> Metric:
        workers = GaugeMetricFamily("matmul_workers", "Live workers.", labels=("device_class", "state"))
        tally = Tally((worker.device.device_class, worker.state) for worker in self._context.fleet.all())
        for labels, count in tally.items():
            workers.add_metric(labels, count)
        return workers

    def _redis(self) -> Iterator[Metric]:
        """Metrics of Redis' append-only file."""
        now = persistence_of(self._context.client)
        figures = {
            "matmul_redis_aof_enabled": ("Whether Redis keeps an append-only file.", now.has_aof),
            "matmul_redis_aof_ok": ("Whether its last write to that file went well.", now.is_ok),
            "matmul_redis_aof_bytes": ("Size of that file.", now.size_bytes),
        }
        for name, (text, value) in figures.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        delayed = "Writes to that file that waited for as long as they may while its disk was busy."
        yield CounterMetricFamily("matmul_redis_aof_delayed_writes", delayed, value=now.delayed_writes)

    def _memory(self) -> Iterator[Metric]:
        now = memory_of(self._context.client)
        yield GaugeMetricFamily("matmul_redis_memory_bytes", "Memory that Redis uses.", value=now.used_bytes)
        text = "Most memory that it may use; 0: as much as there is."
        yield GaugeMetricFamily("matmul_redis_memory_limit_bytes", text, value=now.limit_bytes)
