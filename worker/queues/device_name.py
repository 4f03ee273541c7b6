"""The device's model name as the worker's parent process learns it, without CUDA: benchmarks wait in a queue of the
model, and it is the parent that listens to queues.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

import structlog

from jobs.queue import bench_queue
from worker.cpu.device import model_name

BENCH_QUEUE = "MATMUL_BENCH_QUEUE"  # what the parent listens to, for its child to tell the fleet
UNKNOWN_GPU = "gpu"
ASK_S = 20.0  # longest wait for nvidia-smi
LISTED = re.compile(r"^GPU \d+: (?P<name>.+) \(UUID: (?P<uuid>[^)]+)\)$", re.MULTILINE)

log = structlog.get_logger(__name__)


def offer_bench_queue(device: str) -> str:
    """The queue of the model that `cpu` or `gpu:…` is; the child inherits it in its environment."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    name = model_name() if device == "cpu" else gpu_name(first)
    os.environ[BENCH_QUEUE] = bench_queue(name)
    return os.environ[BENCH_QUEUE]


def consumed_bench_queue(device_name: str) -> str:
    """The queue that this worker takes benchmarks from; in a process without a parent of ours, that of its device."""
    own = bench_queue(device_name)
    consumed = os.environ.get(BENCH_QUEUE) or own
    if consumed != own:
        log.warning("benchmarks come by a queue of another name than the device's", queue=consumed, device=device_name)
    return consumed


def gpu_name(visible: str) -> str:
    """The model's name: by nvidia-smi, else by NVML; `gpu` where neither tells. `visible` is CUDA_VISIBLE_DEVICES with
    one entry: an index in the bus's order, or a UUID or the start of one."""
    # NVML comes second: it loads CUDA's driver library into this process (seen with driver 580).
    gpus = _by_smi() or _by_nvml()
    if visible.isdecimal():
        return gpus[int(visible)][0] if int(visible) < len(gpus) else UNKNOWN_GPU
    return next((name for name, uuid in gpus if uuid.startswith(visible)), UNKNOWN_GPU)


def _by_nvml() -> Sequence[tuple[str, str]]:
    """Name and UUID of every GPU, in the bus's order; none where NVML is not there."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            return [(str(pynvml.nvmlDeviceGetName(each)), str(pynvml.nvmlDeviceGetUUID(each))) for each in handles]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return ()


def _by_smi() -> Sequence[tuple[str, str]]:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return LISTED.findall(listed)
