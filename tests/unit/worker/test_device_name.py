"""The model's name as a worker's parent learns it, without CUDA."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.queue import bench_queue
from jobs.settings import Settings
from worker.cpu.runner import CpuRunner
from worker.queues.device_name import BENCH_QUEUE, consumed_bench_queue, gpu_name, offer_bench_queue

GPUS = [("NVIDIA H200", "GPU-aaaa-1111"), ("NVIDIA T4", "GPU-bbbb-2222")]


class NvmlError(Exception):
    """What NVML raises."""


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two GPUs."""
    module = SimpleNamespace(
        NVMLError=NvmlError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(GPUS),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: GPUS[index][0],
        nvmlDeviceGetUUID=lambda index: GPUS[index][1],
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi that lists the same two."""
    program = tmp_path / "nvidia-smi"
    lines = "\n".join(f"echo 'GPU {index}: {name} (UUID: {uuid})'" for index, (name, uuid) in enumerate(GPUS))
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return program


@pytest.mark.parametrize(
    ("visible", "name"),
    [("0", "NVIDIA H200"), ("1", "NVIDIA T4"), ("GPU-bbbb", "NVIDIA T4"), ("GPU-cccc", "gpu"), ("2", "gpu")],
)
@pytest.mark.parametrize("told_by", ["nvml", "smi"])
def test_a_gpu_is_named(
    visible: str, name: str, told_by: str, nvml: SimpleNamespace, smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if told_by == "smi":

        def asked() -> None:
            raise AssertionError("NVML loads libcuda into the process that asks it")

        nvml.nvmlInit = asked
    else:
        smi.unlink()
    assert gpu_name(visible) == name


@pytest.mark.parametrize("installed", [False, True])
def test_where_neither_tells_it_is_a_gpu(
    installed: bool, nvml: SimpleNamespace, smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise NvmlError

    nvml.nvmlInit = away
    if not installed:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert gpu_name("0") == "gpu"


def test_parent_and_child_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BENCH_QUEUE, raising=False)
    name = CpuRunner(Settings(cpu_threads=1)).device.name
    assert consumed_bench_queue(name) == bench_queue(name)
    monkeypatch.setenv(BENCH_QUEUE, "")  # for monkeypatch to take back
    assert offer_bench_queue("cpu") == bench_queue(name) == consumed_bench_queue(name)
    assert consumed_bench_queue("Another") == bench_queue(name), "what the parent listens to counts"
