"""Every page's router."""

from __future__ import annotations

from service.dashboard import overview, static_files
from service.dashboard.benchmarks import compare, leaderboard, results
from service.dashboard.benchmarks import new as new_benchmark
from service.dashboard.benchmarks import published as results_published
from service.dashboard.benchmarks import report as results_report
from service.dashboard.devices import history as devices_history
from service.dashboard.devices import list as devices
from service.dashboard.jobs import bulk as jobs_bulk
from service.dashboard.jobs import job
from service.dashboard.jobs import list as jobs
from service.dashboard.kernels import pages as kernels
from service.dashboard.multiply import page as multiply

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
    leaderboard.router,
    results_report.router,
    compare.router,
    static_files.router,
)
