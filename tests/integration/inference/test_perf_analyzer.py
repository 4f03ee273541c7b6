"""NVIDIA's perf_analyzer measures the whole service, unchanged."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tools.perf_analyzer import Unavailable, command
from tools.stack import Stack

LEVELS = (1, 16)  # requests under way at a time
WINDOW_MS = 150


@pytest.fixture(scope="module")
def perf_analyzer() -> list[str]:
    try:
        return command()
    except Unavailable as reason:
        pytest.skip(f"perf_analyzer cannot be run here: {reason}")


def products(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v2/models/matmul/stats").json()["model_stats"][0]
    return found


@pytest.mark.parametrize("n", [16, 256])
def test_it_measures_products(
    perf_analyzer: list[str], stack: Stack, client: httpx.Client, tmp_path: Path, n: int
) -> None:
    operands, report = tmp_path / "operands", tmp_path / "report.csv"
    operands.mkdir()
    rng = np.random.default_rng(n)
    for name in "AB":  # its own random operands are random bits, which are not what one multiplies
        rng.standard_normal((n, n), np.float32).tofile(operands / name)
    before = products(client)
    shapes = [word for name in "AB" for word in ("--shape", f"{name}:{n},{n}")]
    levels = ["--concurrency-range", f"{LEVELS[0]}:{LEVELS[1]}:{LEVELS[1] - LEVELS[0]}"]
    windows = ["--measurement-interval", str(WINDOW_MS), "--stability-percentage", "999", "--max-trials", "20"]
    where = ["-m", "matmul", "-u", stack.url.removeprefix("http://"), "--input-data", str(operands), "-f", str(report)]
    done = subprocess.run(
        [*perf_analyzer, *where, *shapes, *levels, *windows], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert sorted(int(row["Concurrency"]) for row in rows) == sorted(LEVELS)
    assert all(float(row["Inferences/Second"]) > 0 and float(row["Server Compute Infer"]) > 0 for row in rows)
    after = products(client)
    counted = after["inference_count"] - before["inference_count"]
    assert counted >= 3 * len(LEVELS)  # windows of each level, none of them empty
    assert 0 < after["execution_count"] - before["execution_count"] <= counted
    assert after["inference_stats"]["fail"] == before["inference_stats"]["fail"]
