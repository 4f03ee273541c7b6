"""The properties of a worker's GPUs, and the available libraries for several GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.fleet.workers import DeviceInfo
from worker.cuda.gpu.info import cuda_info
from worker.cuda.library import cublas_mp, nccl


def gang_info(indices: Sequence[str]) -> DeviceInfo:
    """The first of these GPUs, which are alike. Raises cupy's CUDARuntimeError."""
    device = cuda_info(int(indices[0]))
    if len(indices) == 1:
        return device
    found = {"nccl": nccl.version(), "cublasmp": cublas_mp.version()}
    versions = {name: version for name, version in found.items() if version is not None}
    libraries = ("cublasmp",) if "cublasmp" in versions else ()
    return device.model_copy(
        update={"gpus": len(indices), "libraries": libraries, "versions": device.versions | versions}
    )
