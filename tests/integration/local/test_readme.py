"""Every code block of the README and of docs/api.md, run as printed; only the port is another one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.local import START_TIMEOUT_S, Local, alive, end_group, eventually

ROOT = Path(__file__).resolve().parents[3]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of each."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


BLOCKS = [(language, text) for language, text in blocks("README.md") if language != "text"]  # that is a drawing
BLOCK_TIMEOUT_S = 120.0


def block(part: str) -> str:
    """The one block that holds this text."""
    (found,) = [text for _, text in BLOCKS if part in text]
    return found


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with Local(tmp_path_factory.mktemp("readme")) as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory to run a block in: files that it writes stay out of the real checkout."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def run(language: str, text: str, local: Local, directory: Path) -> str:
    """Its standard output."""
    if "curl" in text and shutil.which("curl") is None and "CI" not in os.environ:
        pytest.skip("curl is not installed")
    command = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-W", "error", "-c"]}[language]
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{local.port}")
    done = subprocess.run(
        [*command, text],
        cwd=directory,
        env=os.environ | {"MATMUL_URL": local.url},
        capture_output=True,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def record_of(job: Any) -> Any:
    assert job["state"] == "succeeded"
    assert job["verification"]["passed"]
    return job


def test_json(local: Local, checkout: Path) -> None:
    reply = json.loads(run("bash", block("[[1, 2], [3, 4]]"), local, checkout))
    assert reply["c"] == [[19, 22], [43, 50]]
    record_of(reply["job"])


def test_npy_files(local: Local, checkout: Path) -> None:
    """By the command, and then the same files by curl."""
    assert "verified" in run("bash", block(".venv/bin/matmul multiply"), local, checkout)
    a, b, by_command = (np.load(checkout / f"{name}.npy") for name in "abc")
    (checkout / "c.npy").unlink()
    headers = run("bash", block("-F a=@a.npy"), local, checkout).lower()
    assert "200 ok" in headers
    assert re.search(r"^location: /v1/jobs/job_\w+\r?$", headers, re.M)
    assert re.search(r"^server-timing: .*kernel;dur=", headers, re.M)
    for c in (by_command, np.load(checkout / "c.npy")):
        assert c.dtype == np.float32
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=1e-3)


def test_python(local: Local, checkout: Path) -> None:
    """The second block goes on where the first ends."""
    first, second = block("c = client.matmul("), block("client.upload(")
    told = run("python", f"{first}{second}print(c[0, 0], y[0, 0], job.id)\n", local, checkout)
    assert told.startswith("400.0 120000.0 job_")


def test_job(local: Local, checkout: Path) -> None:
    reply = run("bash", block("respond-async"), local, checkout)
    assert record_of(json.loads(reply))["product"]["shape"] == [2048, 2048]
    assert np.load(checkout / "c.npy").shape == (2048, 2048)


def test_benchmark(local: Local, checkout: Path) -> None:
    said = run("bash", block("bench run quick"), local, checkout)
    assert "GFLOPS" in said or "gflops" in said
    report = (checkout / "report.html").read_text()
    (newest,) = local.get("/v1/jobs?kind=benchmark&limit=1")["jobs"]
    assert newest["benchmark"]["by_status"] == {"ok": newest["benchmark"]["cases"]}
    assert "<svg" in report and newest["id"] in report


def test_worker_from_elsewhere(tmp_path: Path, local: Local) -> None:
    """On this host, and for the CPU: the Redis of the running service stands for the one on the head node."""
    text = block("make worker")
    assert "redis://:secret@head-node:6379/0" in text
    assert "DEVICE=gpu:0" in text
    environment = local.environment | {"MATMUL_STORE_DIR": str(tmp_path)}
    text = text.replace("redis://:secret@head-node:6379/0", local.redis_url()).replace("gpu:0", "cpu")
    before = {each["id"] for each in local.get("/v1/devices")["devices"]}
    with subprocess.Popen(["bash", "-euc", text], cwd=ROOT, env=environment, text=True, start_new_session=True) as make:
        try:
            eventually(lambda: {each["id"] for each in local.get("/v1/devices")["devices"]} - before, START_TIMEOUT_S)
        finally:
            end_group(make)


def test_make_run(tmp_path: Path) -> None:
    text = block("make run")
    assert text == "make run\n"
    with Local(tmp_path, command=text.split(), directory=ROOT) as local:
        family = local.family()
        local.interrupt()
        eventually(lambda: not alive(family))


# Without an object store there is nothing past the API; tests/integration/matrices has one.
API_BLOCKS = [each for each in blocks("docs/api.md") if 'opened.json()["url"]' not in each[1]]


@pytest.mark.parametrize(("language", "text"), API_BLOCKS)
def test_api_page(language: str, text: str, local: Local, checkout: Path) -> None:
    printed = run(language, text, local, checkout)
    if "-o report.pdf" in text:
        assert (checkout / "report.pdf").read_bytes().startswith(b"%PDF-")
        return
    reply = json.loads(printed)
    assert not str(reply.get("type")).startswith("/problems/"), reply


def test_the_report_of_a_recorded_run(local: Local, checkout: Path) -> None:
    run("bash", block("report_h200.html"), local, checkout)
    assert "<h1" in (checkout / "report_h200.html").read_text()


def test_every_block_is_run_here() -> None:
    """`make test` is what runs this; `test_house.py` holds that continuous integration says the same."""
    run_here = [
        "[[1, 2], [3, 4]]",
        "-F a=@a.npy",
        "c = client.matmul(",
        "client.upload(",
        "respond-async",
        "bench run quick",
        "report_h200.html",
    ]
    run_here += ["make worker", "make run", ".venv/bin/matmul multiply"]
    assert sorted([*map(block, run_here), "make test\n"]) == sorted(text for _, text in BLOCKS)
    assert {language for language, _ in BLOCKS} == {"bash", "python"}
