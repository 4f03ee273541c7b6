"""Text files of the package: what is written is what is read, whenever and under whatever name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kernels.text_files import read_text, write_text

TEXT = '{"m": "A·B"}\n' * 1000


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.xz"])
def test_the_same_text_gives_the_same_bytes_at_any_time(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "other")]
    for now, path in zip((1e9, 2e9), paths, strict=True):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        write_text(path, TEXT)
        assert read_text(path) == TEXT
    one, other = (path.read_bytes() for path in paths)
    assert one == other and sorted(tmp_path.iterdir()) == paths
    assert (len(one) < len(TEXT) / 10) == (suffix != ".json")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:5])
        raise OSError("no space")

    path = tmp_path / "record.json.gz"
    write_text(path, TEXT)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        write_text(path, "other")
    assert read_text(path) == TEXT
