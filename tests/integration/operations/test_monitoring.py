"""Dashboard and alert rules ask for what /metrics has, and each alert has its page of the runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.api.test_jobs import ASYNC, SEEDED
from tools.harness.api import FAKE_TTL_S, Api, worker_info

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "docker" / "monitoring"
SELECTED = re.compile(r"\b(matmul_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")
OF_PROMETHEUS = {"instance"}
OPEN = {"status", "route"}  # labels of which the test does not make every value

# By metric and label, the values that a live answer has.
Live = Mapping[str, Mapping[str, set[str]]]


@pytest.fixture(scope="module")
def live(api: Api) -> Live:
    """After a request, with workers in each state."""
    for state in ("busy", "unavailable"):
        api.registry.beat(worker_info(state).model_copy(update={"state": state}), FAKE_TTL_S)
    with api.client() as client:
        assert client.post("/v1/matmul", json=SEEDED, headers=ASYNC).status_code == 202
        text = client.get("/metrics").text
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def rules() -> list[Mapping[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return list(group["rules"])


def panels() -> list[Mapping[str, Any]]:
    return list(json.loads((MONITORING / "dashboard.json").read_text())["panels"])


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [each["expr"] for panel in panels() for each in panel["targets"]]


def not_there(expression: str, live: Live) -> Iterator[str]:
    """What it asks for that the service does not tell: metrics, labels, values of labels."""
    labels = set(OF_PROMETHEUS)
    for metric, selector in SELECTED.findall(expression):
        if metric not in live:
            yield metric
            continue
        labels |= live[metric].keys()
        for label, operator, values in MATCHER.findall(selector):
            if label not in live[metric]:
                yield f"{metric}: {label}"
            elif operator in ("=", "=~") and label not in OPEN:
                yield from (f"{metric}: {label}={value}" for value in set(values.split("|")) - live[metric][label])
    for group in GROUPED.findall(expression):
        yield from {label.strip() for label in group.split(",") if label.strip()} - labels


@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_told(expression: str, live: Live) -> None:
    assert SELECTED.search(expression)
    assert list(not_there(expression, live)) == []


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("rate(matmul_http_request_total[5m])", "matmul_http_request_total"),
        ('matmul_workers{class="gpu"}', "matmul_workers: class"),
        ('matmul_workers{state=~"ready|idle"}', "matmul_workers: state=idle"),
        ("sum by (le, kernel) (matmul_http_request_seconds_bucket)", "kernel"),
    ],
)
def test_what_is_not_told_is_found_out(expression: str, named: str, live: Live) -> None:
    assert list(not_there(expression, live)) == [named]


def test_what_is_told_of_an_alert_is_in_its_labels() -> None:
    for rule in rules():
        grouped = {label.strip() for group in GROUPED.findall(rule["expr"]) for label in group.split(",")}
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= grouped, rule["alert"]


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    sections = re.findall(r"^## (.+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert sections == names
    assert [rule["annotations"]["runbook"] for rule in rules()] == [f"docs/runbook.md#{each.lower()}" for each in names]
    assert {rule["labels"]["severity"] for rule in rules()} == {"page", "ticket"}


def test_the_dashboard_has_no_panel_twice_or_over_another() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels()}) == len({panel["title"] for panel in panels()}) == len(panels())
