"""Which measurements of other workers count on a device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.fleet.workers import DeviceInfo
from kernels.digest import files_digest
from tests.support.played.own_process import printed_by
from worker.device import measured_model as model
from worker.device.measured_model import measured_model

H200 = DeviceInfo(
    name="NVIDIA H200",
    device_class="gpu",
    uuid="GPU-1",
    index=0,
    versions={"driver": "580.65.06", "cuda_runtime": "13.0"},
)


def test_it_is_named_by_model_and_driver() -> None:
    name, driver, digest = measured_model(H200).split(":")
    assert (name, driver, len(digest)) == ("nvidia-h200", "580.65.06", 16)


def test_two_devices_of_one_model_share_what_they_measure() -> None:
    other = H200.model_copy(update={"uuid": "GPU-2", "index": 1})
    assert measured_model(other) == measured_model(H200)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "NVIDIA H100 PCIe"},
        {"versions": H200.versions | {"driver": "581.1"}},
        {"versions": H200.versions | {"cuda_runtime": "13.1"}},
        {"versions": H200.versions | {"cublas": "13.2.0"}},
        {"versions": {}},
    ],
    ids=["model", "driver", "runtime", "library", "unknown"],
)
def test_others_do_not(change: dict[str, object]) -> None:
    assert measured_model(H200.model_copy(update=change)) != measured_model(H200)


def test_a_changed_kernel_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "one.cu").write_text("int x;")
    (tmp_path / "notes.md").write_text("old")
    before = files_digest(tmp_path, ("*.cu",))
    (tmp_path / "notes.md").write_text("new")
    assert files_digest(tmp_path, ("*.cu", "o*.cu")) == before
    (tmp_path / "one.cu").write_text("int y;")
    changed = files_digest(tmp_path, ("*.cu",))
    (tmp_path / "one.cu").rename(tmp_path / "two.cu")
    assert len({before, changed, files_digest(tmp_path, ("*.cu",))}) == 3


@pytest.mark.parametrize("path", ["launch.py", "library/cublas_tuned.py", "src/transpose.cu"])
def test_whatever_launches_kernels_counts(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "LAUNCH_SOURCES", tmp_path)
    source = tmp_path / path
    source.parent.mkdir(exist_ok=True)
    source.write_text("x = 1")
    before = measured_model(H200)
    source.write_text("x = 2")
    assert measured_model(H200) != before


def test_the_library_s_version_is_among_a_device_s() -> None:
    assert json.loads(printed_by("tests.support.played.versions")) == {
        "cuda_driver_api": "13.1",
        "cuda_runtime": "13.0",
        "nvrtc": "13.2",
        "cublas": "13.8.4",
        "cupy": "14.0",
        "driver": "580.65.06",
    }
