"""Requests that schemathesis makes up from a live OpenAPI document, and what is not as it says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import HealthCheck
from schemathesis.core.result import Ok
from schemathesis.engine import Status, events, from_schema
from schemathesis.engine.run import PhaseName

PHASES = ("examples", "coverage", "fuzzing", "stateful")
# Two checks are left out. A request that the document allows may be refused: that two shapes fit together, or that a
# file is an .npy file, no schema can say. And a server without keys ignores them all.
EXCLUDED = ("positive_data_acceptance", "ignored_auth", "object_level_authorization")
ENDLESS = r"/events$"  # a stream that does not end has tests of its own
ANSWER_TIMEOUT_S = 120  # a PDF takes seconds of processor time, and the machine may be busy


@dataclass
class Outcome:
    """What was sent, by operation and phase, and what was wrong: each thing once."""

    examples: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: Counter[str] = field(default_factory=Counter)
    failures: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    statuses: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @property
    def shown(self) -> str:
        """The failures, to read."""
        return "\n\n".join(f"{of}: {what}\n{how}" for of, each in self.failures.items() for what, how in each.items())


def operations(document: Mapping[str, Any]) -> list[str]:
    """The names of all that are called."""
    schema = schemathesis.openapi.from_dict(dict(document)).exclude(path_regex=ENDLESS)
    return [each.ok().label for each in schema.get_all_operations() if isinstance(each, Ok)]


def made_up(
    url: str,
    document: Mapping[str, Any],
    *,
    examples: int,
    phases: Sequence[str] = PHASES,
    seed: int = 1,
    headers: Mapping[str, str] | None = None,
    operation: str | None = None,
) -> Outcome:
    """Sends to the server there what its document allows, and what it does not. `examples`: of each operation in each
    phase that makes them up at random. `headers` go with each. `operation`: its name, where only that one is called."""
    schema = schemathesis.openapi.from_dict(dict(document)).exclude(path_regex=ENDLESS)
    if operation is not None:
        schema = schema.include(name=operation)
    config = schema.config
    config.seed = seed
    config.update(
        base_url=url,
        headers=dict(headers or {}),
        continue_on_failure=True,
        request_timeout=ANSWER_TIMEOUT_S,
        suppress_health_check=[HealthCheck.all],
        workers=1,
    )
    config.phases.update(phases=list(phases))
    config.checks.update(excluded_check_names=list(EXCLUDED))
    server_error, rejection = config.checks.not_a_server_error, config.checks.negative_data_rejection
    server_error.expected_statuses = [*server_error.expected_statuses, "501"]  # an extra that is not installed
    rejection.expected_statuses = [*rejection.expected_statuses, "413", "431"]  # too large to be looked at
    config.generation.max_examples = examples
    config.generation.database = "none"

    outcome = Outcome()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            _add(outcome, event)
        elif isinstance(event, events.NonFatalError):
            outcome.failures[str(event.label)][str(event.value)[:200]] = ""
        elif isinstance(event, events.FatalError):
            raise event.exception
    return outcome


def _add(outcome: Outcome, event: Any) -> None:
    recorder, phase = event.recorder, event.phase.value
    is_stateful = event.phase is PhaseName.STATEFUL_TESTING
    for case_id, node in recorder.cases.items():
        label = node.value.operation.label if is_stateful else recorder.label
        outcome.examples[label][phase] += 1
        answer = recorder.interactions.get(case_id)
        if answer is not None and answer.response is not None:
            outcome.statuses[label].add(answer.response.status_code)
        for check in recorder.checks.get(case_id, ()):
            if check.status is Status.FAILURE and check.failure_info is not None:
                failure = check.failure_info.failure
                what = f"{failure.title}: {failure.message}"[:300]
                status = answer.response.status_code if answer and answer.response else "no answer"
                outcome.failures[label].setdefault(what, f"{status}: {check.failure_info.code_sample}"[:1000])
    if not is_stateful:
        outcome.seconds[recorder.label] += event.elapsed_time
