"""/v1/published over HTTP."""

from __future__ import annotations

import httpx
import pytest

from kernels.published import PUBLISHED, text_of
from tests.integration.api.test_jobs import problem

PATHS = ["/v1/published", "/v1/published/p100_register_blocking"]


def test_the_list_tells_whose_they_are(quiet: httpx.Client) -> None:
    listed = quiet.get("/v1/published").json()["published"]
    assert [item["name"] for item in listed] == list(PUBLISHED)
    first = listed[0]
    assert (first["name"], first["report"], first["device"]) == ("t4_register_tile_2025", "000", "NVIDIA T4")
    assert first["records"] == len(quiet.get(f"/v1/published/{first['name']}").json()["records"])
    assert first["citation"]["authors"] == ["Abhinandan Sharma", "Vaibhav Jain"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_is_sent_as_it_ships(quiet: httpx.Client, name: str) -> None:
    reply = quiet.get(f"/v1/published/{name}")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.content == text_of(name).encode()


@pytest.mark.parametrize("path", PATHS)
def test_it_is_sent_once_to_who_has_it(quiet: httpx.Client, path: str) -> None:
    first = quiet.get(path)
    assert first.headers["cache-control"] == "no-cache"
    again = quiet.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert quiet.get(path, headers={"if-none-match": '"another"'}).content == first.content
    head = quiet.head(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])


def test_each_has_an_etag_of_its_own(quiet: httpx.Client) -> None:
    paths = ["/v1/published", *(f"/v1/published/{name}" for name in PUBLISHED)]
    assert len({quiet.get(path).headers["etag"] for path in paths}) == len(paths)


@pytest.mark.parametrize("name", ["nope", "p100_register_blocking.json"])
def test_an_unknown_name_is_answered_with_those_there_are(quiet: httpx.Client, name: str) -> None:
    detail = problem(quiet.get(f"/v1/published/{name}"), 404, "not_found")["detail"]
    assert detail == f"There are no published results of that name; there are: {', '.join(PUBLISHED)}."
