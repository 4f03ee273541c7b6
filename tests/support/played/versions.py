"""Prints the versions that a GPU worker tells of its device, with CuPy replaced."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from tests.support.played import gpu_code


def main() -> None:
    gpu_code.install()
    info: Any = import_module("worker.cuda.gpu.info")
    cupy: Any = sys.modules["cupy"]
    libraries: Any = sys.modules["cupy_backends.cuda.libs"]
    cupy.__version__ = "14.0"
    cupy.cuda.runtime.driverGetVersion.return_value = 13010
    cupy.cuda.runtime.runtimeGetVersion.return_value = 13000
    libraries.nvrtc.getVersion.return_value = 13, 2
    libraries.cublas.getVersion.return_value = 130804
    info.driver_version = lambda: "580.65.06"
    json.dump(info._versions(), sys.stdout)


if __name__ == "__main__":
    main()
