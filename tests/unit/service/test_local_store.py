"""Where `make run` keeps matrices."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.settings import Settings
from service.local import run


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Said to be a tmpfs."""
    directory = tmp_path / "shm"
    directory.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"none / ext4 rw 0 0\nnone {directory} tmpfs rw 0 0\n")
    monkeypatch.setattr(run, "SHARED_MEMORY", directory)
    monkeypatch.setattr("jobs.disk.MOUNTS", mounts)
    return directory


def test_beside_a_gpu_matrices_are_in_memory_with_room_for_all(memory: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    roomy, large = Settings(store_bytes=1 << 20), Settings(store_bytes=1 << 60)
    assert run.store_dir(roomy, state, gpus=0) == state / "matrices"
    assert run.store_dir(large, state, gpus=1) == state / "matrices"
    chosen = run.store_dir(roomy, state, gpus=1)
    assert chosen.parent == memory
    assert run.store_dir(roomy, tmp_path / "other", gpus=1) != chosen


def test_what_was_chosen_first_stays(memory: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    chosen = run.store_dir(Settings(store_bytes=1 << 20), state, gpus=1)
    chosen.mkdir()
    assert run.store_dir(Settings(store_bytes=1 << 60), state, gpus=1) == chosen
    (state / "matrices").mkdir(parents=True)
    assert run.store_dir(Settings(store_bytes=1 << 20), state, gpus=1) == state / "matrices"


def test_without_a_tmpfs_matrices_are_with_the_rest(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text("none / ext4 rw 0 0\n")
    assert run.store_dir(Settings(store_bytes=1), tmp_path / "state", gpus=1) == tmp_path / "state" / "matrices"
