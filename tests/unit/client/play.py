"""Runs a flow of the client's with answers that are written down, and keeps what it asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from matmul_client.core.wire import Call, Compute, Concurrent, Flow, NoReply, Outcome, Pause, Reply, Request, Step

T = TypeVar("T")
JOB = "job_" + "0" * 32
LOCATION = {"location": f"/v1/jobs/{JOB}"}
ONE = {"x-matmul-dtype": "float32", "x-matmul-shape": "1,1", **LOCATION}
CUT, NOT_SENT = NoReply("broken off", may_have_arrived=True), NoReply("refused", may_have_arrived=False)


class Clock:
    """A clock that advances only during pauses."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Played:
    """`requests` and `pauses_s` are those of the flow so far."""

    def __init__(self, answers: Iterable[Reply | NoReply], *, timeout_s: float = 60.0, max_retries: int = 8) -> None:
        self.clock = Clock()
        self.call = Call(timeout_s, max_retries, clock=self.clock)
        self.requests: list[Request] = []
        self.pauses_s: list[float] = []
        self._answers = iter(answers)

    def run(self, flow: Flow[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                outcome = self._answer(flow.send(outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    def _answer(self, step: Step) -> Outcome:
        match step:
            case Request():
                self.requests.append(step)
                return next(self._answers)
            case Pause():
                self.pauses_s.append(step.seconds)
                self.clock.now += step.seconds
            case Compute():
                step.work()
            case Concurrent():
                for flow in step.flows:
                    self.run(flow())
        return None


def problem(status: int, name: str, **members: object) -> Reply:
    import json

    text = json.dumps({"type": f"/problems/{name}", "detail": f"A sentence about {name}.", **members})
    headers = {"retry-after": str(members["retry_after_s"])} if "retry_after_s" in members else {}
    return Reply(status, headers, text.encode())
