"""`python -m worker --device cpu` or `--device gpu:0`: one Celery worker for one device, or of several GPUs, by
`--device gpus:0,1`. It takes products from the queue of its device's class, and benchmarks from that of its model.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Sequence

from celery.bin.base import CLIContext
from celery.bin.worker import worker
from celery.exceptions import SecurityWarning
from kombu.entity import Queue

from jobs.errors import InvalidSettings
from jobs.logs import configure_logs
from jobs.queue import WORKER_ARGUMENTS, make_celery
from jobs.redis.layout import claim_layout
from jobs.starting.misspelt import warn_of_misspelt
from jobs.starting.options import cannot_start, make_parser
from jobs.starting.wrong_settings import checked_settings
from kernels.selection.tuned import TABLES
from worker.device.exists import check_device
from worker.process.lease import OWN_EXITS
from worker.queues.child_ends import LOGGER, ChildEnds
from worker.queues.device_name import offer_bench_queue

TASKS = "worker.process.tasks"  # what parent and child import: the task, and what a child does when it starts
_DEVICE = re.compile(r"cpu|gpu:(\d{1,3})|gpus:(\d{1,3}(?:,\d{1,3})+)")
EXAMPLES = """\
  python -m worker
  MATMUL_REDIS_URL=redis://head-node:6379/0 MATMUL_STORE=redis python -m worker --device gpu:0
  python -m worker --device gpus:0,1
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until SIGTERM or SIGINT; the job at hand may end first. Returns the exit status, which is not 0 after an
    error that Celery does not survive."""
    device = _device(arguments)
    try:
        prepare_environment(device)
        check_device(device)
        settings = checked_settings()
        configure_logs(settings)
        logging.getLogger(LOGGER).addFilter(ChildEnds(OWN_EXITS))
        warn_of_misspelt()
        claim_layout(settings)
    except InvalidSettings as error:
        cannot_start(f"the worker for {device}", error)
    if device != "cpu":
        len(TABLES)  # read before children are forked, so that each has them
    # Celery warns of root on many lines. Containers run as another user; on one's own machine it is one's own choice.
    warnings.simplefilter("ignore", SecurityWarning)
    app = make_celery(settings)
    app.conf.imports = (TASKS,)
    app.conf.worker_pool = "worker.pool.task_pool:TaskPool"
    bench = offer_bench_queue(device)
    app.conf.task_queues = [*app.conf.task_queues, Queue(bench)]  # type: ignore[no-untyped-call]
    queue = f"{'cpu' if device == 'cpu' else 'gpu'},{bench}"
    name = f"--hostname={re.sub('[:,]', '-', device)}@%h"
    # As `app.worker_main` does, which would import all of Celery's other commands first, and prompts for these.
    called = CLIContext(app, no_color=False, workdir=None, quiet=True)
    ended: int = worker.main([*WORKER_ARGUMENTS, f"--queues={queue}", name], standalone_mode=False, obj=called)
    return ended


def _device(arguments: Sequence[str] | None) -> str:
    parser = make_parser("python -m worker", "A worker: multiplies on one device. It needs a Redis.", EXAMPLES)
    words = "cpu, gpu:<index> as nvidia-smi counts, or gpus:<index>,<index>,…; in place of MATMUL_DEVICE"
    parser.add_argument("--device", default=os.environ.get("MATMUL_DEVICE", "cpu"), help=words)
    device: str = parser.parse_args(arguments).device
    if not _DEVICE.fullmatch(device):
        parser.error(f"--device is {device!r}; it must be cpu or gpu:<index>, such as gpu:0, or gpus:0,1 for several")
    return device


def prepare_environment(device: str) -> None:
    """Sets the environment that the child inherits: GPUs numbered as by nvidia-smi, and no silent TF32. Raises
    InvalidSettings.
    """
    os.environ["MATMUL_DEVICE"] = device
    if (found := _DEVICE.fullmatch(device)) is None or device == "cpu":
        return
    indices = (found[1] or found[2]).split(",")
    if len(set(map(int, indices))) < len(indices):
        raise InvalidSettings(f"--device {device} names a GPU twice.")
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if visible and max(map(int, indices)) >= len(visible):
        raise InvalidSettings(f"CUDA_VISIBLE_DEVICES leaves {len(visible)} GPUs to choose from, from gpu:0 on.")
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible[int(index)] if visible else index for index in indices)
    # Set to 0 it would take TF32 from the kernels that are asked for by it, too.
    os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
