"""An object store that is slow, or whose answer is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobs.errors import StoreUnavailable
from jobs.object_store.bucket import COPIED_BYTES_PER_S, Bucket
from jobs.settings import Settings
from tests.support.objects import write_credentials

TIMEOUT_S, SLOW_S = 0.5, 1.0
PATIENT_S = 30.0  # where nothing is to take too long
STARTED = b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
COPIED = b"<CopyObjectResult><ETag>one</ETag><LastModified>2026-01-01T00:00:00Z</LastModified></CopyObjectResult>"
NO_UPLOAD = b"<Error><Code>NoSuchUpload</Code></Error>"


class Slow(BaseHTTPRequestHandler):
    """Copies slowly. Ends an upload once: its answer is lost, and whoever asks again hears that there is no upload."""

    protocol_version = "HTTP/1.1"
    kept: int | None = None  # bytes of the object, where ending the upload made it
    ended = 0

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        if self.headers["x-amz-copy-source"]:
            time.sleep(SLOW_S)
        self._answer(200, COPIED)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        if self.path.endswith("?uploads="):
            self._answer(200, STARTED)
            return
        type(self).ended += 1
        if self.ended == 1:
            self.close_connection = True
        else:
            self._answer(404, NO_UPLOAD)

    def do_DELETE(self) -> None:
        self._answer(404, NO_UPLOAD)

    def do_HEAD(self) -> None:
        self._answer(404 if self.kept is None else 200, b"", self.kept or 0)

    def _answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("etag", "one")
        self.send_header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("content-length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def slow() -> Iterator[type[Slow]]:
    yield type("OfOneTest", (Slow,), {})


@pytest.fixture
def bucket(request: pytest.FixtureRequest, slow: type[Slow], tmp_path: Path) -> Iterator[Bucket]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    settings = {
        "store": "s3",
        "s3_url": "s3://one",
        "s3_endpoint": f"http://127.0.0.1:{server.server_port}",
        "s3_region": "r",
        "s3_credentials_file": write_credentials(tmp_path / "credentials"),
        "s3_timeout_s": getattr(request, "param", PATIENT_S),
    }
    yield Bucket(Settings.model_validate(settings))
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("bucket", [TIMEOUT_S], indirect=True)
def test_a_copy_may_take_as_long_as_its_bytes_take(bucket: Bucket) -> None:
    with pytest.raises(StoreUnavailable):
        bucket.copy("a", "b", 0)
    bucket.copy("a", "b", int(60 * COPIED_BYTES_PER_S))


def test_an_upload_whose_last_answer_was_lost_is_there(bucket: Bucket, slow: type[Slow]) -> None:
    slow.kept = 3
    bucket.put_pieces("a", [b"one"], 3)
    assert slow.ended == 2 and bucket.sent_bytes == 3


def test_an_upload_that_is_gone_is_to_be_sent_again(bucket: Bucket, slow: type[Slow]) -> None:
    with pytest.raises(StoreUnavailable):
        bucket.put_pieces("a", [b"one"], 3)
