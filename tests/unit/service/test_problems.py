"""The one table from errors to HTTP statuses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from jobs.errors import JobFailed, MatmulError, QueueFull
from service.problems import BY_TYPE, STATUS, job_failure, problem_headers, problem_response, title_of

ROOT = Path(__file__).resolve().parents[3]
SECOND_SENTENCE = re.compile(r"[.!?] +[A-Z`]")
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
    assert not SECOND_SENTENCE.search(document["detail"])


def text_of(node: ast.AST) -> str:
    """The text of an expression, without what is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def test_every_detail_is_one_sentence() -> None:
    names = {cls.__name__ for cls in ERRORS if cls.__name__ != "InvalidSettings"}  # which only a terminal shows
    sources = [path for room in ("jobs", "service", "worker") for path in (ROOT / room).rglob("*.py")]
    calls = [node for path in sources for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    details = [text_of(node.args[0]) for node in calls if node.args and getattr(node.func, "id", "") in names]
    assert len([each for each in details if each]) > 100
    assert [each for each in details if SECOND_SENTENCE.search(each)] == []


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
