"""Ranges come into the caller's memory; what is odd about an answer is left to obstore, from where the bytes end."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.errors import MatrixNotFound, StoreUnavailable
from jobs.object_store.bucket import Bucket
from jobs.object_store.ranges import PIECE_BYTES, NotServed, OtherSize, RangeReader
from jobs.settings import Settings
from tests.support.objects import write_credentials
from tests.support.ranges import RangeServer, serving

CONTENT = bytes(i * i % 251 for i in range(100_000))
LARGE = CONTENT * 30  # of several pieces


def read(server: RangeServer, reader: RangeReader, start: int, count: int) -> bytes:
    buffer = bytearray(count)
    for _ in reader.pieces(f"{server.url}/key?signed=yes", start, memoryview(buffer), len(server.content)):
        pass
    return bytes(buffer)


def bucket_of(server: RangeServer, directory: Path, **settings: object) -> Bucket:
    credentials = write_credentials(directory / "credentials")
    own = {"s3_url": "s3://one", "s3_endpoint": server.url, "s3_region": "r", "s3_credentials_file": credentials}
    return Bucket(Settings.model_validate({"store": "s3", **own, **settings}))


def test_ranges_over_one_connection() -> None:
    reader = RangeReader(5, 5)
    with serving(LARGE) as server:
        assert read(server, reader, 7, len(LARGE) - 9) == LARGE[7:-2]
        assert read(server, reader, 0, 1) == LARGE[:1]
        assert (server.connections, server.library_asked) == (1, 0)


def test_received_bytes_are_reported_piece_by_piece() -> None:
    buffer = memoryview(bytearray(len(LARGE)))
    with serving(LARGE) as server:
        for got in RangeReader(5, 5).pieces(f"{server.url}/key", 0, buffer, len(LARGE)):
            assert buffer[:got] == LARGE[:got]
            assert got == len(LARGE) or got % PIECE_BYTES == 0
        assert got == len(LARGE)


def test_bytes_received_with_the_head_are_reported_too() -> None:
    buffer = memoryview(bytearray(50))
    with serving(CONTENT) as server:
        assert list(RangeReader(5, 5).pieces(f"{server.url}/key", 7, buffer, len(CONTENT))) == [50]
    assert buffer == CONTENT[7:57]


def test_a_connection_that_the_server_closed_meanwhile_is_no_error() -> None:
    reader = RangeReader(5, 5)
    with serving(CONTENT, "closed") as server:
        for _ in range(2):
            assert read(server, reader, 0, 50) == CONTENT[:50]
        assert server.connections == 2


@pytest.mark.parametrize("answer", ["whole", "busy", "another range", "another length", "chunked", "nonsense", "half"])
def test_an_odd_answer_is_not_served_and_its_connection_not_used_again(answer: str) -> None:
    reader = RangeReader(5, 5)
    with serving(CONTENT, answer) as server:
        with pytest.raises(NotServed):
            read(server, reader, 10, 1000)
        assert read(server, reader, 10, 1000) == CONTENT[10:1010]
        assert server.connections == 2


def test_an_object_of_another_size() -> None:
    with serving(CONTENT, "larger") as server, pytest.raises(OtherSize):
        read(server, RangeReader(5, 5), 0, 10)


@pytest.mark.parametrize(
    ("answer", "silent_s", "range_s"), [("silent", 0.05, 5), ("trickle", 0.1, 0.05), ("endless head", 5, 0.05)]
)
def test_silence_and_a_trickle_end(answer: str, silent_s: float, range_s: float) -> None:
    with serving(LARGE, answer) as server, pytest.raises(TimeoutError):
        read(server, RangeReader(silent_s, range_s), 0, len(LARGE))


def test_a_server_that_is_not_there() -> None:
    with serving(CONTENT) as server:
        pass
    with pytest.raises(NotServed):
        read(server, RangeReader(5, 5), 0, 10)


def test_tls_and_proxies_are_obstores(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(CONTENT) as server:
        with pytest.raises(NotServed):
            url = server.url.replace("http:", "https:")
            list(RangeReader(5, 5).pieces(f"{url}/key", 0, memoryview(bytearray(9)), len(CONTENT)))
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        with pytest.raises(NotServed):
            read(server, RangeReader(5, 5), 0, 10)
        assert server.asked == []


@pytest.mark.parametrize("answer", ["busy", "half", "whole"])
def test_the_rest_comes_by_obstore(tmp_path: Path, answer: str) -> None:
    with serving(LARGE, answer) as server:
        bucket, buffer = bucket_of(server, tmp_path), bytearray(2_000_000)
        told = list(bucket.read_into("key", 5, memoryview(buffer), len(LARGE)))
        assert buffer == LARGE[5:2_000_005]
        assert told == sorted(set(told)) and told[-1] == len(buffer) == bucket.received_bytes
        assert server.library_asked == len(server.asked) - 1 == 1
        assert server.asked[1] == (5 + (1_000_000 if answer == "half" else 0), 2_000_005)


def test_what_does_not_fit_is_not_found(tmp_path: Path) -> None:
    with serving(CONTENT, "larger", "busy", "larger") as server:
        for _ in range(2):  # by this reader, and by obstore
            with pytest.raises(MatrixNotFound):
                list(bucket_of(server, tmp_path).read_into("key", 0, memoryview(bytearray(10)), len(CONTENT)))


def test_silence_is_not_tried_again_by_obstore(tmp_path: Path) -> None:
    with serving(CONTENT, "silent") as server:
        bucket = bucket_of(server, tmp_path, s3_timeout_s=0.05)
        with pytest.raises(StoreUnavailable) as told:
            list(bucket.read_into("key", 0, memoryview(bytearray(10)), len(CONTENT)))
        assert told.value.resource == "objects" and server.library_asked == 0
