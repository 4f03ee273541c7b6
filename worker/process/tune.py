"""`python -m worker.process.tune`, or `make tune`: has live workers measure the shapes that `auto` was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from jobs.errors import MatmulError
from jobs.fleet.measured import MAX_WANTED, MeasuredShapes
from jobs.fleet.registry import WorkerRegistry
from jobs.redis.client import connect
from jobs.settings import Settings
from jobs.starting.options import make_parser
from jobs.starting.wrong_settings import checked_settings
from worker.device.measured_model import measured_model

LOOK_EVERY_S = 1.0
STUCK_S = 60.0  # without a shape measured
NO_GPU = "No live worker has a GPU. Start one, and ask again."
STUCK = (
    "No shape was measured for a minute. Jobs may keep the devices busy, or workers may run with "
    "MATMUL_AUTO_MEASURES=off or other kernels than this checkout."
)
NONE_LISTED = (
    "No worker has listed a shape for the kernels of this checkout. If they were asked for some, they run another "
    "version: run this from a checkout of theirs."
)
STOPPED = "Stopped. Shapes that were not measured stay listed: ask again to have them measured."


def main(arguments: Sequence[str] | None = None) -> int:
    description = "Has live GPU workers measure the shapes that `auto` was asked for, and waits for them."
    make_parser("python -m worker.process.tune", description).parse_args(arguments)
    try:
        return tune(checked_settings())
    except MatmulError as error:
        print(error.detail, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 0


def tune(settings: Settings, *, stuck_s: float = STUCK_S) -> int:
    """Waits until all requested shapes are measured (returns 0) or no more progress is made (returns 1). Raises
    StoreUnavailable, StoreFull.
    """
    with connect(settings) as client:
        live = WorkerRegistry(client, prefix=settings.key_prefix).live()
        models = {measured_model(one.device) for one in live if one.device.device_class == "gpu"}
        if not models:
            print(NO_GPU, file=sys.stderr)
            return 1
        shared = [MeasuredShapes(client, prefix=settings.key_prefix, model=model) for model in sorted(models)]
        if not any(one.is_known() for one in shared):
            print(NONE_LISTED, file=sys.stderr)
            return 1
        try:
            return _wait(shared, stuck_s)
        finally:
            shared[0].end_asking()


def _wait(shared: list[MeasuredShapes], stuck_s: float) -> int:
    left: list[str] | None = None
    changed_at = time.monotonic()
    while True:
        shared[0].ask()  # again: another who asked and ended took it back
        found = [name for one in shared for name in one.to_measure(MAX_WANTED)]
        if found != left:  # names, for as many may have been listed as were measured
            if left is None or len(found) != len(left):
                print(f"{len(found)} shapes to measure", flush=True)
            left, changed_at = found, time.monotonic()
        if not found:
            return 0
        if time.monotonic() - changed_at > stuck_s:
            print(STUCK, file=sys.stderr)
            return 1
        time.sleep(min(LOOK_EVERY_S, stuck_s))


if __name__ == "__main__":
    sys.exit(main())
