"""An audit file that cannot be written, or has lines that were cut off."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from pydantic import SecretStr
from starlette.types import Scope

from jobs.errors import Forbidden
from jobs.redis.embedded import EmbeddedServer
from jobs.settings import Settings
from service.audit import Audit, broken_at
from tests.integration.api.test_jobs import submit
from tests.integration.keys.test_access import KEYS, PEPPER
from tools.harness.api import running_api


def test_a_line_that_the_file_has_no_room_for_is_in_the_log(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it tells has been done, and its caller is told so."""
    keys = {"api_keys": SecretStr(KEYS["owner"].line), "api_key_pepper": SecretStr(PEPPER)}
    with running_api(valkey, key_prefix, tmp_path, auth="on", audit_file=Path("/dev/full"), **keys) as api:
        with api.client(authorization=f"Bearer {KEYS['owner'].key}") as owner:
            job = submit(owner)
        with api.client(authorization=f"Bearer {KEYS['other'].key}") as other:
            assert other.get("/v1/jobs").status_code == 401
    said = [one.getMessage() for one in caplog.records if one.name == "matmul.audit"]
    assert said[::2] == ["the audit file cannot be written, so a line is here (No space left on device)"] * 2
    assert [orjson.loads(line)["object"] for line in said[1::2]] == [f"/v1/jobs/{job}", "GET /v1/jobs"]


def test_a_line_that_was_cut_off_ends_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit"
    audit = Audit(Settings(audit_file=path))
    scope: Scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "state": {}, "client": None}
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: write(file, data[:20]))
        audit.refused(scope, Forbidden())
    for _ in range(2):
        audit.refused(scope, Forbidden())
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3 and broken_at(lines) == 1 and broken_at(lines[1:]) == 1
    assert orjson.loads(lines[2])["result"] == "forbidden"
    for strange in (b"", b"[]", b"1", b'{"chain": []}', b"{}"):
        assert broken_at([strange]) == 1
