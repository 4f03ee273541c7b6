"""The metrics of HTTP exchanges, in Prometheus' text format. Each API process counts in its own files in a shared
directory; the process that answers /metrics adds them up. A process that replaces a dead one continues in its files, so
that no counter decreases.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from service.api_process.share import Share

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


class HttpMetrics:
    """Requests and their latency, by route; stored matrices that were found damaged; jobs that cannot be read."""

    def __init__(self, share: Share) -> None:
        if share.metrics is not None:
            _count_in_files(share.metrics, share.index)
        self._directory = share.metrics
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
        # What prometheus_client finds for labels, because it takes a lock and some time to look for it.
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

        self.damaged = Counter(
            "matmul_damaged_matrices",
            "Reads that found stored bytes to be no longer those that came in; nothing of them was sent.",
            registry=self.registry,
        )

        self.unreadable = Counter(
            "matmul_unreadable_jobs",
            "Jobs that a page of a listing left out, for another version had recorded what this one cannot read.",
            registry=self.registry,
        )

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts one exchange; status 0 means that the client disconnected before the answer."""
        route = getattr(scope.get("route"), "path", "unknown")
        labels = scope["method"], route, status
        counted = self._counted.get(labels)
        if counted is None:
            of_route = self._seconds.labels(scope["method"], route)
            counted = self._counted[labels] = self._requests.labels(scope["method"], route, str(status)), of_route
        counted[0].inc()
        counted[1].observe(seconds)

    def text(self) -> bytes:
        """The metrics of all API processes, as text."""
        if self._directory is None:
            return generate_latest(self.registry)
        of_all = CollectorRegistry()
        MultiProcessCollector(of_all, str(self._directory))  # type: ignore[no-untyped-call]
        return generate_latest(of_all)


def _count_in_files(directory: Path, index: int) -> None:
    """Makes all metrics that this process creates from now on count in files."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)  # prometheus_client cannot be configured otherwise
    values.ValueClass = values.MultiProcessValue(lambda: index)  # type: ignore[no-untyped-call]
