"""A job's stream of events, cut anywhere."""

from __future__ import annotations

import pytest

from matmul_client import NotFound, Unreachable
from matmul_client.core.events import Event, EventFeed
from matmul_client.core.results import BenchmarkResult, Point, point_of
from matmul_client.core.wire import Reply
from tests.unit.client.play import CUT, JOB, problem

STREAM = (
    b"retry: 1000\n\n"
    b'id: 1-0\nevent: queued\ndata: {"state":"queued"}\n\n'
    b": ping\n\n"
    b'id: 2-0\nevent: progress\ndata: {"progress":{"done":1,"total":2,"eta_s":1.5},"found":{"kernel":"naive",'
    b'"dtype":"float32","m":1,"n":2,"k":3,"batch":5,"status":"ok","gflops":4.5}}\n\n'
    b'id: 3-0\nevent: succeeded\ndata: {"state":"succeeded"}\n\n'
)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_of_any_size(size: int) -> None:
    feed = EventFeed(JOB, 8)
    events = [event for start in range(0, len(STREAM), size) for event in feed.feed(STREAM[start : start + size])]
    assert [event.name for event in events] == ["queued", "progress", "succeeded"] and feed.ended
    point = Point("naive", "float32", 1, 2, 3, "ok", 4.5, 1, 2, 1.5, batch=5)
    assert [point_of(event) for event in events] == [None, point, None]


def test_it_goes_on_after_the_last_event_read() -> None:
    feed = EventFeed(JOB, 8)
    list(feed.feed(STREAM[: STREAM.index(b"id: 3-0") + 12]))
    assert feed.broken(CUT) > 0
    assert feed.request().headers["last-event-id"] == "2-0"
    assert [event.name for event in feed.feed(STREAM[STREAM.index(b"id: 3-0") :])] == ["succeeded"]


def test_breaks_without_news_end_it() -> None:
    feed = EventFeed(JOB, 2)
    feed.broken(CUT)
    feed.broken(CUT)
    with pytest.raises(Unreachable):
        feed.broken(CUT)


def test_a_job_that_is_gone_and_one_that_has_ended() -> None:
    feed = EventFeed(JOB, 8)
    with pytest.raises(NotFound):
        feed.broken(problem(404, "job_not_found"))
    assert feed.broken(Reply(204, {}, b"")) == 0 and feed.ended


def test_a_result_in_a_notebook_is_escaped() -> None:
    row = {"kernel": "<script>", "config": {"tile": 16}, "gflops": 12345.6}
    result = BenchmarkResult({"job": {"id": JOB}, "records": [row], "warnings": []}, "<svg onload='x()'/>")
    shown = result._repr_html_()
    assert "<script>" not in shown and "onload" not in shown and "&lt;script&gt;" in shown
    assert "12,346" in shown and "tile=16" in shown


def test_an_event_of_another_kind_is_no_point() -> None:
    assert point_of(Event("1-0", "progress", {"found": {}})) is None
