"""Times the steps of a product inside a worker: `python -m benchmarks.measure.path.steps --device gpu:0`.

The worker's own code runs here, in a process of its own, next to an idle service; the clock is read whenever it calls
its store or its device. Reads the records of jobs with stored operands, one line of JSON each, and answers each with a
line of medians.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from typing import Any

import numpy as np

from benchmarks.recorded import compact
from jobs.fleet.measured import MeasuredShapes
from jobs.ledger.interface import Claimed
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.interface import MatrixStore, MatrixWriter
from jobs.models import ANONYMOUS, Job, JobRecord, new_id, product_id
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.settings import Settings
from worker.device.measured_model import measured_model
from worker.device.runner import Runner
from worker.process.main import prepare_environment
from worker.process.start import make_runner
from worker.product.auto import AutoChoices
from worker.product.multiply import multiply

WARM_UPS, SAMPLES = 2, 9


class Steps:
    """Reads the clock around what `multiply` asks of this store and this runner, of one product at a time."""

    def __init__(self, store: MatrixStore, runner: Runner) -> None:
        self.open_s, self._ready_at, self._create_at = 0.0, 0.0, 0.0
        for owner, name, watched in (
            (store, "open", self._opened),
            (store, "create", self._created),
            (runner, "compute", self._computed),
        ):
            setattr(owner, name, watched(getattr(owner, name)))

    def _opened(self, manage: Callable[..., AbstractContextManager[Any]]) -> Callable[..., Any]:
        @contextmanager
        def opened(*args: Any) -> Iterator[Any]:
            begun = time.perf_counter()
            with manage(*args) as matrix:
                self.open_s += time.perf_counter() - begun
                yield matrix

        return opened

    def _computed(self, manage: Callable[..., AbstractContextManager[Any]]) -> Callable[..., Any]:
        @contextmanager
        def computed(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with manage(*args, **kwargs) as product:
                self._ready_at = time.perf_counter()
                yield product

        return computed

    def _created(self, create: Callable[..., MatrixWriter]) -> Callable[..., MatrixWriter]:
        def created(*args: Any, **kwargs: Any) -> MatrixWriter:
            self._create_at = time.perf_counter()
            return create(*args, **kwargs)

        return created

    def of(self, run: Callable[[], Any]) -> dict[str, float]:
        """Milliseconds. `check`: from the product, and the sketch that is launched behind it, to the verdict; `store`:
        from there to the end, without the copy from the device, which begins before."""
        self.open_s = 0.0
        measured = run().outcome.measured
        ended_at = time.perf_counter()
        return {
            "open_ms": 1e3 * self.open_s,
            "h2d_ms": measured.h2d_ms,
            "kernel_ms": measured.kernel_ms,
            "check_ms": 1e3 * (self._create_at - self._ready_at),
            "d2h_ms": measured.d2h_ms,
            "store_ms": max(0.0, 1e3 * (ended_at - self._create_at) - measured.d2h_ms),
        }


def medians(records: Iterator[JobRecord], settings: Settings) -> Iterator[dict[str, float]]:
    store, runner = make_matrix_store(settings, keeps_maps=True), make_runner(settings)
    steps, choices, rng = Steps(store, runner), AutoChoices(runner), np.random.default_rng()
    with connect(settings) as client:
        model = measured_model(runner.device)
        choices.learn(MeasuredShapes(client, prefix=settings.key_prefix, model=model).all())
    ledger = make_ledger(settings, connect(settings))

    def sample(record: JobRecord) -> dict[str, float]:
        again = record.model_copy(update={"id": new_id("job")})
        job = Job(record=again, owner=ANONYMOUS, queue="", version=1, timeout_s=settings.job_timeout_s)
        times = steps.of(
            lambda: multiply(
                Claimed(job, attempt=1),
                store,
                runner,
                auto=choices,
                rng=rng,
                product_ttl_s=settings.product_ttl_s,
                check_ownership=lambda: None,
                ledger=ledger,
            )
        )
        assert record.product is not None, "these jobs have succeeded"
        store.drop(product_id(job.id, job.record.attempt), record.product.dtype, record.product.shape)
        if (new := choices.next_new_shape()) is not None:  # as between the jobs of a worker
            choices.adopt_best(new[0])
        return times

    for record in records:
        samples = [sample(record) for _ in range(WARM_UPS + SAMPLES)][WARM_UPS:]
        yield {name: median(sample[name] for sample in samples) for name in samples[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", required=True)
    device: str = parser.parse_args().device
    prepare_environment(device)
    for typical in medians((JobRecord.model_validate_json(line) for line in sys.stdin), Settings()):
        print(compact(typical), flush=True)


if __name__ == "__main__":
    main()
