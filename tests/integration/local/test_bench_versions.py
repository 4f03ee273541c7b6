"""`make bench-versions` on a CPU: this version and a changed one by turns."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure.path.versions import MIN_TURNS, main
from tests.support.other_version import ITS_KERNEL, KERNEL, changed_copy


def test_each_version_answers_by_itself(tmp_path: Path) -> None:
    out, other = tmp_path / "versions.json", changed_copy(tmp_path / "other")
    lines = ["inline:16", "burst:48"]
    main(["--other", str(other), "--device", "cpu", "--seconds", "0", "--lines", *lines, "--out", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert [f"{row['line']}:{row['n']}" for row in rows] == lines
    for row in rows:
        assert (row["this_kernel"], row["other_kernel"]) == (KERNEL, ITS_KERNEL)
        assert 0 < row["low"] <= row["ratio"] <= row["high"] and row["turns"] == MIN_TURNS
        assert row["this_ms"] > 0 and row["other_ms"] > 0
        if row["line"] != "burst":
            assert row["this_in_job_ms"] > 0 and row["other_in_job_ms"] > 0
