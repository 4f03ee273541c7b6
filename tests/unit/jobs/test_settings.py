"""Settings that take more than pydantic: the Redis URL out of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.settings import Settings


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
