"""Requests that are wrong in ways nobody thought of: none is the server's own fault, none ends a process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.malformed import __main__ as campaign
from tests.malformed.__main__ import attack, found, main, passed
from tests.malformed.client import Answer
from tests.malformed.requests import Request
from tests.malformed.run import wrong_with
from tests.malformed.server import attacked
from tests.support.runs import RunsRecord

REQUESTS = 1200
PROBLEM = {b"content-type": b"application/problem+json"}
SENTENCE = b'{"type": "/problems/x", "detail": "It is so."}'


def test_no_wrong_request_is_the_server_s_fault(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**31)
    with attacked(tmp_path) as server:
        servers, processes = server.servers(), server.ids()
        tally = attack(servers, requests=REQUESTS, seed=seed, processes=1, seconds=600)
        result = found(server, tally, processes)
        assert passed(result), f"seed {seed}: {result} {tally.kept} {server.stack.logs()}"
    assert result["requests"] == REQUESTS
    assert len(result["statuses"]) > 10  # it is no single check that refuses all


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(500, PROBLEM, SENTENCE), "status 500"),
        (Answer(503, PROBLEM, SENTENCE), "status 503"),
        (Answer(503, PROBLEM | {b"retry-after": b"1"}, SENTENCE), None),
        (Answer(400, {b"content-type": b"text/plain"}, b"Bad Request"), "text/plain"),
        (Answer(422, PROBLEM, SENTENCE.replace(b".", b"")), "no sentence"),
        (Answer(422, PROBLEM, SENTENCE), None),
        (Answer(200, {}, b""), None),
    ],
)
def test_what_would_count_as_one(answer: Answer, words: str | None) -> None:
    wrong = wrong_with(answer, Request("GET", b"/"))
    assert (wrong is None) if words is None else (words in str(wrong))


def test_a_process_that_ended_or_a_traceback_would_be_seen() -> None:
    result = {"bad": {}, "restarts": 0, "tracebacks": 0}
    assert passed(result)
    for spoilt in ({"bad": {"status 500": 1}}, {"restarts": 1}, {"tracebacks": 1}):
        assert not passed(result | spoilt)


def test_runs_add_up_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(asked: Any, seed: int, requests: int, seconds: float) -> dict[str, Any]:
        return {"seed": seed, "requests": requests, "bad": {}, "restarts": 0, "tracebacks": 0}

    monkeypatch.setattr(campaign, "run_one", ran)
    out = tmp_path / "malformed.json"
    for wanted, for_s in ((120, 9999), (200, 1), (200, 9999)):
        assert main(["--requests", f"{wanted}", "--each", "50", "--for-s", f"{for_s}", "--out", str(out)]) == 0
    runs = RunsRecord(out).runs
    assert [(run["seed"], run["requests"]) for run in runs] == [(1, 50), (2, 50), (3, 20), (4, 50), (5, 30)]
