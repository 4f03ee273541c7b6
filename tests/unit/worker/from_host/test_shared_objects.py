"""NVIDIA's libraries in wheels: found, and told if they do not load."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from worker.cuda.library.shared_objects import shared_object


def test_a_library_that_does_not_load_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nvidia" / "toy" / "lib"
    folder.mkdir(parents=True)
    (folder / "libtoy.so.1").write_text("no library")
    monkeypatch.syspath_prepend(tmp_path)
    with capture_logs() as lines:
        assert shared_object("libabsent.so.1", "libtoy.so.1") is None
    (line,) = lines
    assert line["log_level"] == "warning" and str(folder / "libtoy.so.1") in line["reason"]
