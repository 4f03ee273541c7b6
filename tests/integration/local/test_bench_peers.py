"""`make bench-peers` with the smallest products, where PyTriton is not installed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.measure.peers.__main__ import main
from benchmarks.tables.service.peers import peers


def test_without_pytriton_the_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "OPENBLAS_NUM_THREADS", "1")  # which the run sets, for the processes it starts
    out = tmp_path / "peers_now.json"
    main(
        ["--pytriton", str(tmp_path / "none"), "--rounds", "2", "--seconds", "0.3", "--sizes", "16", "--out", str(out)]
    )
    assert "PyTriton is not measured: give it a Python of its own" in capsys.readouterr().out
    record = json.loads(out.read_text())
    assert [(row["clients"], row["server"], len(row["rounds"])) for row in record["rows"]] == [
        (1, "service", 2),
        (1, "naive", 2),
        (16, "service", 2),
        (16, "naive", 2),
    ]
    assert all(value > 0 for row in record["rows"] for value in row["rounds"])
    cost = record["server_time"]
    assert 0 < cost["scripts_us"] < cost["commands_us"] < 2 * cost["cpu_us"]
    assert 3 <= cost["commands"] < 40, "what a small product sends to Valkey"
    assert "naive service" in "\n".join(peers([out], "Here."))
