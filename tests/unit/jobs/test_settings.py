"""Settings that take more than pydantic: the Redis URL out of a file, and those that must go together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from jobs.errors import InvalidSettings
from jobs.settings import Settings
from jobs.starting.options import CANNOT_START


def test_the_redis_url_comes_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "redis_url"
    path.write_text("redis://:secret@redis:6379/0\n")
    monkeypatch.setenv("MATMUL_REDIS_URL_FILE", str(path))
    settings = Settings()
    assert settings.redis_url.get_secret_value() == "redis://:secret@redis:6379/0"
    assert "secret" not in repr(settings)


def test_a_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATMUL_REDIS_URL_FILE", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="missing"):
        Settings()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"heartbeat_s": 30, "lease_s": 1}, "MATMUL_HEARTBEAT_S is 30 and MATMUL_LEASE_S is 1"),
        ({"heartbeat_s": 2.1, "lease_s": 6}, "MATMUL_LEASE_S"),
        ({"redis_timeout_s": 6, "lease_s": 6}, "MATMUL_REDIS_TIMEOUT_S"),
        ({"heartbeat_s": 2, "worker_ttl_s": 2}, "MATMUL_WORKER_TTL_S"),
        ({"sweep_s": 3}, "MATMUL_SWEEP_S"),
        ({"max_wait_s": 10}, "MATMUL_DEFAULT_WAIT_S"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_a_sentence(values: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidSettings, match=named):
        Settings.model_validate(values)


@pytest.mark.parametrize("name", ["session_ttl_s", "idempotency_ttl_s", "matrix_ttl_s", "job_timeout_s", "max_wait_s"])
@pytest.mark.parametrize("value", ["1000000000000", "9" * 20])
def test_no_time_is_longer_than_a_calendar_has(name: str, value: str) -> None:
    """Such a server would start, and then answer 500."""
    with pytest.raises(InvalidSettings, match=f"MATMUL_{name.upper()} is .*: it must be 3155760000 at most"):
        Settings.model_validate({name: value})


def test_no_time_is_infinite() -> None:
    with pytest.raises(InvalidSettings, match="MATMUL_BENCHMARK_TIMEOUT_S is inf: it must be 3155760000 at most"):
        Settings.model_validate({"benchmark_timeout_s": "inf"})


def test_no_number_is_larger_than_redis_counts() -> None:
    for name in ("max_jobs_per_key", "store_bytes", "max_failed_keys_per_minute"):
        with pytest.raises(InvalidSettings, match=f"MATMUL_{name.upper()} is 9999.*: it must be 9223372036854775807"):
            Settings.model_validate({name: "9" * 400})
    assert Settings.model_validate({"max_benchmark_flops": "1e30"}).max_benchmark_flops == 1e30


def test_no_launch_has_more_jobs_than_a_script_claims() -> None:
    """A claim of some thousands would break off half done."""
    assert Settings.model_validate({"max_batch": 1024}).max_batch == 1024
    with pytest.raises(ValidationError, match="less than or equal to 1024"):
        Settings.model_validate({"max_batch": 1025})


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize("name", ["api_keys_file", "audit_file", "store_dir"])
def test_a_blank_path_is_not_this_directory(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=f"MATMUL_{name.upper()} is blank: give a path, or do not set it"):
        Settings.model_validate({name: value})


def test_neither_api_nor_worker_starts_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATMUL_HEARTBEAT_S", "30")
    for module in ("service", "worker"):
        ended = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, timeout=240, check=False)
        assert ended.returncode == CANNOT_START
        (line,) = ended.stderr.strip().splitlines()
        assert "cannot start" in line and "sound workers lose their jobs" in line
