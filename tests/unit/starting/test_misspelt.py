"""Variables that are close to a setting are told; settings, others' variables, and Kubernetes' are not."""

from __future__ import annotations

import subprocess
import sys
from threading import Timer

import pytest

from jobs.settings import Settings
from jobs.starting.misspelt import misspelt
from jobs.starting.settings_text import variable


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MATMUL_STORE_BYTE", "MATMUL_STORE_BYTES"),
        ("MATMUL_LEASE", "MATMUL_LEASE_S"),
        ("MATMUL_JOB_TIMEOUT", "MATMUL_JOB_TIMEOUT_S"),
        ("matmul_max_attempt", "MATMUL_MAX_ATTEMPTS"),
        ("MATMUL_REDISURL", "MATMUL_REDIS_URL"),
        ("MATMUL_API_KEY_FILE", "MATMUL_API_KEYS_FILE"),
    ],
)
def test_what_was_meant_is_named(name: str, meant: str) -> None:
    assert misspelt([name, "PATH"]) == [f"{name.upper()} is no setting and is ignored; {meant} is one."]


def test_what_is_known_or_far_from_all_is_not() -> None:
    settings = [variable(name) for name in Settings.model_fields]
    of_clients = ["MATMUL_URL", "MATMUL_API_KEY"]
    of_kubernetes = [
        f"MATMUL{service}_{name}"
        for service in ("", "_API", "_REDIS", "_STORE", "_WORKER")
        for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP_ADDR")
    ]
    assert misspelt([*settings, *of_clients, *of_kubernetes, "MATMUL_", "MATMUL_X", "STORE_BYTE"]) == []


@pytest.mark.parametrize("program", ["service", "worker"])
def test_a_program_says_so_at_its_start(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setenv("MATMUL_LOG_FORMAT", "json")
    monkeypatch.setenv("MATMUL_LEASE", "60")
    monkeypatch.setenv("MATMUL_REDIS_URL", "redis://127.0.0.1:1/0")  # nothing answers there
    process = subprocess.Popen([sys.executable, "-m", program], stderr=subprocess.PIPE, text=True)
    latest = Timer(120, process.kill)
    latest.start()
    with process:
        assert process.stderr is not None
        is_said = any("MATMUL_LEASE is no setting and is ignored" in line for line in process.stderr)
        process.kill()
    latest.cancel()
    assert is_said
