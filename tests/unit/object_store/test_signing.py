"""A URL that takes exactly the announced bytes, checked by botocore, which computes a signature as a store does."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]

from jobs.object_store.bucket import Bucket
from jobs.object_store.signing import SIGNATURE, SIGNED_HEADERS, bind_to_size
from jobs.settings import Settings
from tests.support.objects import KEY_ID, SECRET, write_credentials

TOKEN = "a/session+token=="


def bucket_of(url: str, **settings: Any) -> Bucket:
    told = {"store": "s3", "s3_url": url, "s3_endpoint": "http://127.0.0.1:1", "s3_region": "r", **settings}
    return Bucket(Settings.model_validate(told))


def accepts(url: str, size: int) -> bool:
    """Whether a store takes a PUT of so many bytes."""
    target = urlsplit(url)
    fields = dict(parse_qsl(target.query))
    signature, names = fields.pop(SIGNATURE), fields[SIGNED_HEADERS].split(";")
    sent = {"host": target.netloc, "content-length": str(size)}
    request = AWSRequest("PUT", url.partition("?")[0], {name: sent[name] for name in names}, params=fields)
    request.context["timestamp"] = fields["X-Amz-Date"]
    auth = S3SigV4QueryAuth(Credentials(KEY_ID, SECRET), "s3", "r")
    return bool(auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request) == signature)


@pytest.mark.parametrize("url", ["s3://one", "s3://one/a prefix/of+two"])
@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_store_takes_the_announced_bytes_and_no_others(url: str, token: str, tmp_path: Path) -> None:
    credentials = write_credentials(tmp_path / "credentials")
    if token:
        credentials.write_text(f"{credentials.read_text()}aws_session_token = {token}\n")
    signed = bucket_of(url, s3_credentials_file=credentials).sign_put("uploads/a.w_1", 1024, 60.0)
    assert accepts(signed, 1024)
    assert not any(accepts(signed, size) for size in (0, 1023, 1025, 5 << 30))


def test_keys_of_the_environment_sign_the_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    signed = bucket_of("s3://one").sign_put("uploads/a.w_1", 7, 60.0)
    assert accepts(signed, 7) and not accepts(signed, 8)


def test_a_url_of_other_credentials_is_left_to_the_sweep(tmp_path: Path) -> None:
    """A role's secret is not known here."""
    bucket = bucket_of("s3://one", s3_credentials_file=write_credentials(tmp_path / "credentials"))
    signed = bucket.sign_put("uploads/a.w_1", 1024, 60.0)
    assert bind_to_size(signed, "PUT", "another secret", 1024) is None
