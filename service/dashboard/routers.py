"""Every page's router."""

from __future__ import annotations

from service.dashboard import (
    compare,
    devices,
    jobs,
    kernels,
    multiply,
    new_benchmark,
    overview,
    results,
    results_published,
    static_files,
)

ROUTERS = (
    overview.router,
    jobs.router,
    kernels.router,
    devices.router,
    multiply.router,
    new_benchmark.router,
    results.router,
    results_published.router,
    compare.router,
    static_files.router,
)
