"""The one table from errors to HTTP statuses."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from jobs.errors import JobFailed, MatmulError, QueueFull
from service.problems import BY_TYPE, STATUS, job_failure, problem_headers, problem_response, title_of

SCOPE = {"path": "/v1/matmul", "state": {"request_id": "r1"}}


def family(cls: type[MatmulError]) -> Iterator[type[MatmulError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from family(child)


# The worker has errors of its own, which no caller meets.
ERRORS = sorted({cls for cls in family(MatmulError) if cls.__module__.startswith(("jobs", "service"))}, key=str)


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
def test_every_error_has_a_status_a_type_and_a_title(cls: type[MatmulError]) -> None:
    document = orjson.loads(problem_response(cls(), SCOPE).body)
    assert document["status"] == STATUS[cls]
    assert document["type"] == f"/problems/{cls.type}"
    assert document["title"] == title_of(cls)
    assert document["title"].endswith(".")
    assert "\n" not in document["title"]


def test_types_name_one_problem_each() -> None:
    """But for the one error that HTTP adds members to."""
    types = [cls.type for cls in ERRORS if cls.__name__ != "PayloadTooLarge"]
    assert len(types) == len(set(types))
    assert BY_TYPE.keys() == set(types)


def test_retry_after_is_in_header_and_document() -> None:
    response = problem_response(QueueFull(), SCOPE, {"location": "/x"}, members={"job": "j"})
    document = orjson.loads(response.body)
    assert response.headers["retry-after"] == str(document["retry_after_s"]) == "5"
    assert (response.headers["location"], document["job"]) == ("/x", "j")
    assert problem_headers(QueueFull()) == {"retry-after": "5"}  # which pages have too


def test_a_jobs_error_keeps_its_sentence() -> None:
    for cls in family(JobFailed):
        failure = job_failure(cls.type, "It went wrong.")
        assert (failure.type, failure.detail) == (cls.type, "It went wrong.")
    assert type(job_failure("from_the_future", "x")) is JobFailed
