"""What /metrics says of jobs, queues, workers and matrices: read from the ledger when it is asked for."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.queue import QUEUES
from service.context import Context


class LedgerCollector(Collector):
    """Jobs, queues, workers and matrices, read when they are asked for. Raises StoreUnavailable."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        yield self._jobs()
        yield from self._queues()
        yield self._workers()
        stored = GaugeMetricFamily("matmul_store_bytes", "Bytes of matrices kept.")
        stored.add_metric((), self._context.store.used_bytes())
        yield stored

    def _jobs(self) -> Metric:
        jobs = GaugeMetricFamily("matmul_jobs", "Jobs that are remembered, by state.", labels=("state",))
        for state, count in self._context.ledger.counts().items():
            jobs.add_metric((state.value,), count)
        return jobs

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
        tally = Tally((worker.device.device_class, worker.state) for worker in self._context.registry.known())
        for labels, count in tally.items():
            workers.add_metric(labels, count)
        return workers
