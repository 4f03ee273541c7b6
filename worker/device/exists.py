"""Checks whether a worker's device exists, from the parent process and without loading CUDA there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from jobs.errors import InvalidSettings

ASK_S = 60.0  # longest wait for the driver, which may take a while on a machine of many GPUs
NO_DRIVER, NO_DEVICE = 90, 100  # exit statuses: ours, and CUDA's own error of that number
# Anything else that is wrong with a GPU the child reports, and tries again.
PROBE = f"""
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit({NO_DRIVER})
sys.exit({NO_DEVICE} if cuda.cuInit(0) == {NO_DEVICE} else 0)
"""


def check_device(device: str) -> None:
    """`device`: `cpu` or `gpu:<index>`, which CUDA_VISIBLE_DEVICES names by now. Raises InvalidSettings."""
    if device == "cpu":
        return
    if importlib.util.find_spec("cupy") is None:
        raise InvalidSettings(
            f"--device {device} needs CuPy, which is not installed; `make worker DEVICE={device}` installs it where it "
            "sees a GPU. --device cpu needs none."
        )
    try:
        status = subprocess.run([sys.executable, "-c", PROBE], check=False, timeout=ASK_S).returncode
    except subprocess.TimeoutExpired:
        return
    if status == NO_DRIVER:
        raise InvalidSettings(f"--device {device} needs NVIDIA's driver (libcuda.so.1), which is not on this machine.")
    if status == NO_DEVICE:
        raise InvalidSettings(f"CUDA finds no {device} here; `nvidia-smi -L` lists the GPUs that there are.")
