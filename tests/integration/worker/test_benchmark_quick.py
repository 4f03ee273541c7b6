"""The preset `quick` through the whole service on a CPU: one POST, and a lab report comes back."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import psutil
import pytest

from analysis.plots.by_name import PLOTS
from tools.harness.api import ended
from tools.stack import Stack

LIMIT_S = 20.0  # what the preset promises
ALWAYS = {"gflops", "time"}  # plots that any sweep has data for


@pytest.fixture(scope="module")
def job(stack: Stack) -> dict[str, Any]:
    """The finished job's record."""
    with httpx.Client(base_url=stack.url, timeout=60, trust_env=False) as client:
        before = processor_s(stack)
        location = client.post("/v1/benchmarks", json={"preset": "quick"}).raise_for_status().headers["location"]
        record = ended(client, location.rpartition("/")[2])
        assert record["state"] == "succeeded", record["error"]
        assert processor_s(stack) - before < LIMIT_S
        return record


def processor_s(stack: Stack) -> float:
    """Of the worker's, which measures by itself: a machine with much else to do takes longer and spends no more."""
    worker = psutil.Process(stack.workers[0].pid)
    return sum(sum(each.cpu_times()[:4]) for each in (worker, *worker.children(recursive=True)))


def read(client: httpx.Client, job: dict[str, Any], part: str, **headers: str) -> httpx.Response:
    return client.get(f"/v1/benchmarks/{job['id']}/{part}", headers=headers)


def test_results(client: httpx.Client, job: dict[str, Any]) -> None:
    found = read(client, job, "results").json()
    assert found["complete"]
    assert [(one["kernel"], one["n"], one["status"]) for one in found["records"]] == [
        ("cpu_blas", n, "ok") for n in (128, 256, 512, 1024)
    ]
    assert all(one["gflops"] > 0 and one["before"]["passed"] and one["after"]["passed"] for one in found["records"])
    assert job["benchmark"]["cases"] == 4
    rows = list(csv.DictReader(io.StringIO(read(client, job, "results", accept="text/csv").text)))
    assert [row["n"] for row in rows] == ["128", "256", "512", "1024"]


def test_report(client: httpx.Client, job: dict[str, Any]) -> None:
    page = read(client, job, "report").raise_for_status().text
    assert "cpu_blas" in page
    assert "<svg" in page
    text = read(client, job, "report", accept="text/markdown").raise_for_status().text
    assert "cpu\\_blas" in text
    assert "/v1/benchmarks" in text  # how to do it again


def test_plots(client: httpx.Client, job: dict[str, Any]) -> None:
    drawn = {name for name in PLOTS if read(client, job, f"plots/{name}").status_code == 200}
    assert drawn >= ALWAYS
    for name in sorted(drawn):
        assert read(client, job, f"plots/{name}", accept="image/png").content.startswith(b"\x89PNG")


def test_the_same_run_compared_with_itself(client: httpx.Client, job: dict[str, Any]) -> None:
    told = read(client, job, f"results?compare={job['id']}").json()
    assert sum(told["counts"].values()) == 4
    assert told["counts"]["faster"] == told["counts"]["slower"] == 0
    assert told["environment"] == []
