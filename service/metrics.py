"""What this process counts of its HTTP exchanges for /metrics, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import Scope

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
