"""Lines, lanes and findings of the overview, from what was recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from jobs.errors import InvalidRequest
from jobs.fleet.history import SERIES, Sample
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import QueueDepth
from jobs.models import Job
from service.dashboard.overview.health import findings_of, headline
from service.dashboard.overview.timeline import WIDTH, Span, blocks_of
from service.dashboard.overview.trends import rows_of, series_of, trends_of
from service.dashboard.words import age, speed
from tools.harness.api import worker_info

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
FINE = SERIES["5m"]


def sample(seconds_ago: float, succeeded: float, **values: Any) -> Sample:
    return Sample(NOW - timedelta(seconds=seconds_ago), succeeded=succeeded, failed=0.0, **values)


def test_rates_are_between_two_samples_that_follow_each_other() -> None:
    samples = [sample(30, 100), sample(25, 110), sample(20, 110), sample(1, 500), sample(0, 3)]
    rates = [row.done_per_s for row in rows_of(samples, FINE)]
    assert rates == [2.0, 0.0, None, None]  # a gap says nothing, nor does a count that began anew


def test_a_single_point_can_be_seen() -> None:
    rows = rows_of([sample(10, 0), sample(5, 5)], FINE)
    throughput = trends_of(rows, FINE, NOW)[0]
    (line,) = throughput.lines
    assert len(line.split()) == 2 and len({point.split(",")[1] for point in line.split()}) == 1


def test_a_line_breaks_where_nothing_is_known() -> None:
    rows = rows_of([sample(20 * at, 0, workers=2.0, busy=1.0) for at in (14, 13, 12, 2, 1)], FINE)
    (utilisation,) = (one for one in trends_of(rows, FINE, NOW) if one.name == "Utilisation")
    assert utilisation.now == "50 %" and len(utilisation.lines) == 4
    assert not [one for one in trends_of(rows, FINE, NOW) if one.name == "Power"]


def test_a_time_that_is_none_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match="there are 5m, 1h, 24h"):
        series_of("2h")


def span(begin_s: float, length_s: float, since: datetime) -> Span:
    begin = since + timedelta(seconds=begin_s)
    return Span(cast(Job, None), begin, begin + timedelta(seconds=length_s))


def test_short_jobs_side_by_side_are_one_block() -> None:
    since = NOW - timedelta(hours=1)
    spans = [span(at, 0.01, since) for at in (100, 101, 102)] + [span(1000, 600, since), span(3599.9, 0.1, since)]
    blocks = blocks_of(spans, since, 3600)
    assert [len(block.spans) for block in blocks] == [3, 1, 1]
    assert blocks[1].width == pytest.approx(600 / 3.6, abs=0.1)
    assert all(0 <= block.start <= block.start + block.width <= WIDTH for block in blocks)


def findings(known: list[WorkerInfo], depths: dict[str, QueueDepth], **more: int) -> dict[str, str]:
    found = findings_of(known, depths, [], more.get("dead", 0), more.get("failed", 0))
    return {"Health": headline(found).level, **{one.name: one.level for one in found}}


def test_health_says_what_is_wrong_first() -> None:
    idle, slow = QueueDepth(0, None), QueueDepth(3, 90.0)
    assert set(findings([worker_info()], {"cpu": idle}).values()) == {"good"}
    assert findings([worker_info()], {"cpu": slow}) | {"Queue cpu": "wait", "Health": "wait"} == findings(
        [worker_info()], {"cpu": slow}
    )
    none = findings([], {"cpu": slow})
    assert none["Health"] == none["Workers"] == none["Queue cpu"] == "bad"
    drained = worker_info().model_copy(update={"state": "drained"})
    assert findings([worker_info("other"), drained], {"cpu": idle})["played"] == "wait"
    assert findings([worker_info()], {"cpu": idle}, dead=1)["Dead letters"] == "wait"


def test_ages_and_speeds_as_one_says_them() -> None:
    ago = [timedelta(seconds=s) for s in (1, 30, 21 * 60 + 41, 3 * 3600, 86_400, 3 * 86_400)]
    said = [age(datetime.now(UTC) - each) for each in ago]
    assert said == ["just now", "30 s ago", "21 min ago", "3 h ago", "1 day ago", "3 days ago"]
    assert [speed(value) for value in (None, 6.4e-5, 12.0)] == ["–", "< 0.001", "12"]
