"""What /metrics says, in Prometheus' text format: the HTTP side as counted here, the rest as the ledger has it."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from jobs.queue import QUEUES

if TYPE_CHECKING:
    from service.context import Context

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class HttpMetrics:
    """Requests and their latency, by route; stored matrices that were found damaged."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("matmul_http_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "matmul_http_request_seconds",
            "Time to answer a request, in seconds.",
            ("method", "route"),
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )

        self.damaged = Counter(
            "matmul_damaged_matrices",
            "Reads that found stored bytes to be no longer those that came in; nothing of them was sent.",
            registry=self.registry,
        )

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts one exchange; status 0 is a client that left before its answer."""
        route = getattr(scope.get("route"), "path", "unknown")
        self._requests.labels(scope["method"], route, str(status)).inc()
        self._seconds.labels(scope["method"], route).observe(seconds)


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
        tally = Tally((worker.device.device_class, worker.state) for worker in self._context.registry.live())
        for labels, count in tally.items():
            workers.add_metric(labels, count)
        return workers
