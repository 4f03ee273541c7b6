"""How fast pages are in a browser: first paint, and the script time of an update on a chart of a thousand points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from playwright.sync_api import Browser, CDPSession, Page
from pydantic import SecretStr

from jobs.benchmarks.cases import Case
from jobs.fleet.registry import WorkerRegistry
from jobs.matrices.factory import make_matrix_store
from jobs.models import Job, Progress
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.settings import Settings
from tools.harness.api import FAKE_TTL_S, Api, until, worker_info
from tools.harness.benchmarks import case_record, cases_of, findings_of
from tools.stack import Stack

POINTS = 1000
DEVICE = "A CPU"  # the played worker's
LOCALE = "en-GB"
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
PAINTED = f"() => {FIRST_PAINT} !== undefined"
LEASE_S = 60.0
# A promise rather than a question over and over, which would count as script time.
NEXT_UPDATE = """() => {
  window.updated = new Promise(done => new PerformanceObserver((found, self) => {
    self.disconnect();
    done(found.getEntries().length);
  }).observe({entryTypes: ['measure']}));
}"""
FAST, SLOW = 40.0, 20.0  # GFLOPS of the figures that are made up


def first_paint_ms(browser: Browser, url: str) -> float:
    """From the request to the first content on the screen, with nothing cached."""
    with browser.new_context(locale=LOCALE) as context:
        page = context.new_page()
        page.goto(url)
        page.wait_for_function(PAINTED)
        return float(page.evaluate(FIRST_PAINT))


@dataclass
class ScriptTime:
    """Milliseconds that a page's scripts have run, as Chromium counts them."""

    session: CDPSession

    @classmethod
    def of(cls, page: Page) -> ScriptTime:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        return cls(session)

    @property
    def ms(self) -> float:
        metrics = {one["name"]: one["value"] for one in self.session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["ScriptDuration"]) * 1e3


@contextmanager
def played_on(stack: Stack) -> Iterator[Api]:
    """What stands behind a running service, for a test that plays one of its workers."""
    settings = Settings(redis_url=SecretStr(stack.redis.url))
    with connect(settings) as client:
        registry = WorkerRegistry(client, prefix=settings.key_prefix)
        played = worker_info()
        registry.beat(played, FAKE_TTL_S)
        ledger, store = make_ledger(settings, client), make_matrix_store(settings, client)
        try:
            yield Api(url=stack.url, settings=settings, ledger=ledger, store=store, registry=registry)
        finally:  # or jobs of later tests would wait for it
            registry.gone(played.id)


@dataclass
class Growing:
    """A running benchmark whose cases are measured when a test wants it."""

    api: Api
    job: Job
    cases: tuple[Case, ...]
    done: int

    def add(self, count: int) -> None:
        """Measures so many more."""
        found = self.cases[self.done : self.done + count]
        records = [case_record(case, gflops=FAST if index % 2 else SLOW) for index, case in enumerate(found)]
        self.done += count
        progress = Progress(done=self.done, total=len(self.cases), current=found[-1].kernel)
        news = records[-1].model_dump(mode="json", include={"case", "round", "kernel", "status", "gflops"})
        attempt = self.job.record.attempt
        assert self.api.ledger.renew(self.job.id, attempt, lease_s=LEASE_S)
        assert self.api.ledger.keep_findings(self.job.id, attempt, findings_of(records), progress, news)


def growing(api: Api, http: httpx.Client, left: int) -> Growing:
    """A thousand cases are measured, so many are left."""
    sizes = list(range(1, (POINTS + left + 1) // 2 + 1))
    found = begun(api, http, shapes=sizes, dtypes=["float32", "float64"])
    found.add(POINTS)
    return found


def begun(api: Api, http: httpx.Client, **asked: object) -> Growing:
    """The played worker has just taken it; nothing is measured."""
    spec = {"kernels": ["cpu_blas"], "device": DEVICE, "timing": {"rounds": 1}} | asked
    until(lambda: http.post("/v1/benchmarks?dry_run=true", json=spec).is_success)  # once the API knows the worker
    reply = http.post("/v1/benchmarks", json=spec).raise_for_status()
    job = api.claim(reply.headers["location"].rpartition("/")[2])
    return Growing(api, job, cases_of(job), 0)


def wait_for_chart(page: Page) -> None:
    """Waits until the chart is drawn for the first time."""
    page.wait_for_function("() => performance.getEntriesByName('chart update').length > 0")


def updates_ms(page: Page, benchmark: Growing, count: int) -> Iterator[float]:
    """Script time of each update, one new point on the chart each. The page shows the benchmark's results."""
    scripts = ScriptTime.of(page)
    for _ in range(count):
        page.evaluate(NEXT_UPDATE)
        before = scripts.ms
        benchmark.add(1)
        page.evaluate("updated")
        yield scripts.ms - before
