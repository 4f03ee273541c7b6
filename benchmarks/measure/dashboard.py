"""Measures the dashboard in Chromium: first paint of the overview, and the script time of a live update.

    python -m benchmarks.measure.dashboard [--out benchmarks/results]

Starts the embedded stack (Valkey, API, one CPU worker) in a directory of its own; needs the system's Chromium.
Writes `dashboard_<date>.json`. Paint: every load with an empty cache, on an overview with finished jobs. Update: a
running benchmark's page with 1,000 points on the chart gets one more, made up by the benchmark itself. Script time is
wall time; then as many updates again are traced for the processor time of the main thread's tasks, drawing included.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from gzip import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from playwright.sync_api import Browser

from service.dashboard.render import STATIC_DIR
from tools.browser import chromium
from tools.harness.api import http_client
from tools.harness.main_thread import updates_tasks
from tools.harness.page_speed import LOCALE, POINTS, first_paint_ms, growing, played_on, updates_ms, wait_for_chart
from tools.stack import Stack
from worker.cpu.environment import dated_environment

PACKAGES = ("fastapi", "jinja2", "playwright", "starlette", "uvicorn")
JOBS, LOADS, UPDATES, WARM_UPS = 60, 30, 30, 3


def percentiles(samples_ms: Sequence[float]) -> dict[str, float]:
    ordered = sorted(samples_ms)
    return {"p50_ms": statistics.median(ordered), "max_ms": ordered[-1], "samples": len(ordered)}


def fill(http: httpx.Client) -> None:
    """Submits jobs, so that the overview has some to show."""
    for _ in range(JOBS):
        http.post("/v1/matmul", json={"a": [[1, 2]], "b": [[3], [4]]}).raise_for_status()


def first_paint(browser: Browser, url: str) -> dict[str, Any]:
    samples = [first_paint_ms(browser, url) for _ in range(WARM_UPS + LOADS)]
    return {"jobs": JOBS, **percentiles(samples[WARM_UPS:])}


def live_update(browser: Browser, stack: Stack, http: httpx.Client) -> dict[str, Any]:
    with played_on(stack) as api, browser.new_context(locale=LOCALE) as context:
        benchmark = growing(api, http, WARM_UPS + 2 * UPDATES)
        page = context.new_page()
        page.goto(f"{stack.url}/ui/benchmarks/{benchmark.job.id}")
        wait_for_chart(page)
        samples = list(updates_ms(page, benchmark, WARM_UPS + UPDATES))
        tasks = updates_tasks(page, benchmark, UPDATES)
    return {
        "points": POINTS,
        **percentiles(samples[WARM_UPS:]),
        "longest_task": percentiles([each.longest_ms for each in tasks]),
        "main_thread": percentiles([each.whole_ms for each in tasks]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    out = parser.parse_args().out
    with (
        TemporaryDirectory() as directory,
        Stack(Path(directory), settings={"cpu_threads": "1"}) as stack,
        chromium() as browser,
        http_client(stack.url) as http,
    ):
        fill(http)
        record = {
            "environment": dated_environment(*PACKAGES),
            "chromium": browser.version,
            "first_paint": first_paint(browser, stack.url),
            "live_update": live_update(browser, stack, http),
            "script_bytes": sum(len(compress(path.read_bytes())) for path in STATIC_DIR.rglob("*.js")),
        }
    path = out / f"dashboard_{datetime.now(UTC).date().isoformat()}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
