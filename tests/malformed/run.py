"""One process's share of the requests, and what became of them."""

from __future__ import annotations

import base64
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.malformed.client import Answer, BadAnswer, Connection, NoAnswer
from tests.malformed.mutate import Sent, mutated
from tests.malformed.requests import Request

ANSWER_TIMEOUT_S = 30.0  # of a whole request
UNTOLD_END_S = 0.02  # how long an answer to a request is waited for whose end nobody knows
MAX_KEPT = 20  # bad answers that are told in full
KEPT_WIRE_BYTES = 3000


Servers = Sequence[tuple[str, int, Sequence[Request]]]  # host, port, and the requests that are right there


@dataclass(frozen=True, slots=True)
class Share:
    """What one process sends."""

    servers: Servers
    seed: int
    requests: int
    seconds: float


@dataclass
class Tally:
    """What was answered. `bad` is told in full, for the first few."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    told_503: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    kept: list[dict[str, Any]] = field(default_factory=list)
    answer_ms: list[float] = field(default_factory=list)  # of whole requests

    def add(self, other: Tally) -> None:
        self.sent += other.sent
        self.statuses += other.statuses
        self.mutations += other.mutations
        self.told_503 += other.told_503
        self.bad += other.bad
        self.kept = (self.kept + other.kept)[:MAX_KEPT]
        self.answer_ms += other.answer_ms


def run(share: Share) -> Tally:
    """Sends them one after the other, on a connection to each server that is kept as long as it can be."""
    rng, tally = random.Random(share.seed), Tally()
    connections = [Connection(host, port) for host, port, _ in share.servers]
    ends_at = time.monotonic() + share.seconds
    while tally.sent < share.requests and time.monotonic() < ends_at:
        at = rng.randrange(len(share.servers))
        sent = mutated(share.servers[at][2], rng)
        _send(connections[at], sent, tally)
    for connection in connections:
        connection.close()
    return tally


def _send(connection: Connection, sent: Sent, tally: Tally) -> None:
    tally.sent += 1
    tally.mutations.update(sent.request.mutations)
    began = time.monotonic()
    try:
        timeout_s = ANSWER_TIMEOUT_S if sent.is_whole else UNTOLD_END_S
        answer = connection.exchange(sent.wire, has_body=sent.request.method != "HEAD", timeout_s=timeout_s)
    except NoAnswer as error:
        if sent.is_whole:
            _keep(tally, sent, f"no answer: {error}")
        return
    except BadAnswer as error:
        _keep(tally, sent, f"bad answer: {error}")
        return
    if sent.is_whole:
        tally.answer_ms.append((time.monotonic() - began) * 1e3)
    else:
        connection.close()
    tally.statuses[answer.status] += 1
    if (wrong := wrong_with(answer, sent.request)) is not None:
        _keep(tally, sent, wrong)
    elif answer.status == 503:
        tally.told_503 += 1


def wrong_with(answer: Answer, request: Request) -> str | None:
    """What an answer must not be: an error of the server's, or one that does not say what is wrong."""
    if answer.status >= 500 and (answer.status != 503 or b"retry-after" not in answer.headers):
        return f"status {answer.status}"
    if answer.status < 400 or request.method == "HEAD":
        return None
    media_type = answer.headers.get(b"content-type", b"").partition(b";")[0]
    if media_type == b"text/html":
        return None
    if media_type != b"application/problem+json":
        return f"status {answer.status} as {media_type.decode()}"
    problem = json.loads(answer.body)
    is_inference = request.target.startswith(b"/v2") and problem["instance"].startswith(
        "/v2"
    )  # as sent, and as it came
    if is_inference and problem.get("error") != problem["detail"]:
        return f"no error for its clients: {problem}"
    return None if problem["type"] and problem["detail"].endswith((".", "?")) else f"no sentence: {problem}"


def _keep(tally: Tally, sent: Sent, wrong: str) -> None:
    tally.bad[wrong[:60]] += 1
    if len(tally.kept) < MAX_KEPT:
        wire = base64.b64encode(sent.wire[:KEPT_WIRE_BYTES]).decode()
        tally.kept.append({"wrong": wrong, "mutations": sent.request.mutations, "wire": wire})
