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

from jobs.errors import NoWorkers, QueueFull, StoreFull, StoreUnavailable
from jobs.fleet.places import AGREED
from jobs.fleet.workers import OUT_OF_SERVICE
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


def test_a_worker_of_another_store_is_out_of_service(api: Api) -> None:
    """The API finds that out; the worker takes itself for ready."""
    elsewhere = worker_info("elsewhere").model_copy(update={"store": "file:other"})
    api.registry.beat(elsewhere, FAKE_TTL_S)
    with api.client() as client:
        assert 'matmul_workers{device_class="cpu",state="misplaced"} 1.0' in client.get("/metrics").text.splitlines()
    api.registry.gone("elsewhere")


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


@pytest.mark.parametrize("page", ["operations", "runbook"])
def test_a_page_names_metrics_that_are_there(page: str, live: Live) -> None:
    named = re.findall(r"`(matmul_\w+(?:\{[^}]*\})?)`", (ROOT / "docs" / f"{page}.md").read_text())
    assert named and [missing for each in named for missing in not_there(each, live)] == []


def test_the_first_event_of_a_series_counts() -> None:
    """`increase` is 0 over a series that begins with 1."""
    for rule in rules():
        for metric, selector in re.findall(r"increase\((matmul_\w+)(\{[^}]*\})?", rule["expr"]):
            if OPEN & {label for label, _, _ in MATCHER.findall(selector)}:
                assert f"unless {metric} offset 5m) > 0" in rule["expr"], rule["alert"]


def test_a_redis_that_cannot_write_is_no_lack_of_workers() -> None:
    """Their heartbeats are changes too, so workers then seem to be gone."""
    (rule,) = (each for each in rules() if each["alert"] == "MatmulNoWorker")
    assert rule["expr"].endswith("and on () (max(matmul_redis_aof_ok) == 1)")


def section(alert: str) -> str:
    return (ROOT / "docs" / "runbook.md").read_text().split(f"## {alert}\n")[1].split("\n## ")[0]


def test_every_state_out_of_service_is_explained() -> None:
    assert set(OUT_OF_SERVICE) <= set(re.findall(r"`(\w+)`", section("MatmulWorkerOutOfService")))


def test_every_refusal_that_may_last_is_named() -> None:
    lasting = {each.type for each in (NoWorkers, StoreUnavailable, StoreFull, QueueFull)}
    assert lasting <= set(re.findall(r"`(\w+)`", section("MatmulRefusals")))


def test_settings_of_api_and_workers_are_changed_in_both() -> None:
    """A worker whose setting differs keeps to its own."""
    shared = {f"MATMUL_{name.upper()}" for name in AGREED}
    for rule in rules():
        done = section(rule["alert"]).split("**Do.**")[-1]
        if shared & set(re.findall(r"`(MATMUL_\w+)`", done)):
            assert "API and workers" in done, rule["alert"]


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
