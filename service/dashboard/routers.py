"""Every page's router."""

from __future__ import annotations

from service.dashboard import (
    compare,
    devices,
    devices_history,
    job,
    jobs,
    jobs_bulk,
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
    jobs_bulk.router,
    job.router,
    kernels.router,
    devices.router,
    devices_history.router,
    multiply.router,
    new_benchmark.router,
    results.router,
    results_published.router,
    compare.router,
    static_files.router,
)
