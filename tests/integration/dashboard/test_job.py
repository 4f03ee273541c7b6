"""One job's page: its life, its product as a heat map, its device's telemetry, what went wrong, how to repeat it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.benchmarks.records import DeviceState
from jobs.formats.bfloat16 import narrow, widen
from jobs.models import JobError, JobEvent
from jobs.states import JobState
from service.dashboard.charts.bars import WIDTH, parts_of
from service.dashboard.charts.product_map import CELLS, mapped
from service.dashboard.charts.telemetry import strips_of
from service.dashboard.jobs.life import life_of, steps_of
from tests.integration.api.test_benchmark_results import new
from tests.integration.dashboard.test_multiply import RANDOM, job_of, post, texts
from tests.integration.dashboard.test_pages import submit
from tests.support.http.pages import Page, assert_no_dead_links, get
from tools.harness.api import Api
from tools.harness.benchmarks import case_record, cases_of, find, finish, square


# ---- its life ----
def test_every_attempt_is_in_its_life(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.claim(job_id)
    api.ledger.fail(job_id, 1, JobError(type="device_fault", detail="The device fell over."), max_attempts=2)
    api.succeed(job_id, np.array([[11.0]], np.float32))
    page = get(quiet, f"/ui/jobs/{job_id}")
    states = re.findall(r'<th scope="row"><span class="state (\w+)">', page.html)
    assert states == ["succeeded", "running", "queued", "running", "queued"]
    assert "attempt 1" in page.text and page.text.count("The device fell over.") == 2
    assert_no_dead_links(quiet, page)


def test_its_life_is_one_bar_of_the_states_that_lasted(api: Api, quiet: httpx.Client) -> None:
    record = api.ledger.get(submit(quiet)).record.model_copy(update={"state": JobState.SUCCEEDED})
    life = [("queued", 0), ("running", 100), ("queued", 300), ("running", 300), ("succeeded", 400)]
    events = [
        JobEvent(id=f"{1000 + at}-{place}", event=event, data={"attempt": 1}) for place, (event, at) in enumerate(life)
    ]
    bar = life_of(steps_of(record, events))
    assert [(part.name, part.start, part.width) for part in bar] == [
        ("queued", 0, 250),
        ("running", 250, 500),
        ("queued", 750, 0),  # within the millisecond that events tell
        ("running", 750, 250),
    ]


def test_without_events_the_record_tells_its_life(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, np.array([[11.0]], np.float32))
    record = api.ledger.get(job_id).record
    steps = steps_of(record, [])
    assert [step.state for step in steps] == ["queued", "running", "succeeded"]
    assert [step.at for step in steps] == [record.created_at, record.started_at, record.finished_at]
    assert steps[-1].lasted_s is None and all((step.lasted_s or 0) >= 0 for step in steps)
    waiting = record.model_copy(update={"started_at": None, "finished_at": None, "state": JobState.QUEUED})
    (step,) = steps_of(waiting.model_copy(update={"created_at": datetime(2026, 1, 1, tzinfo=UTC)}), [])
    assert (step.lasted_s or 0) > 0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=8))
def test_parts_of_a_bar_fill_it_side_by_side(values: list[float]) -> None:
    parts = parts_of([(str(place), value) for place, value in enumerate(values)])
    assert [part.value for part in parts] == values
    end = 0.0
    for part in parts:
        assert part.start == pytest.approx(end, abs=0.1)
        assert (part.width > 0) == (part.value > 0)
        end = part.start + part.width
    assert end == pytest.approx(WIDTH if any(values) else 0.0, abs=0.1)


# ---- its product ----
def test_a_product_is_drawn_with_its_numbers(api: Api, quiet: httpx.Client) -> None:
    job_id = submit(quiet)
    api.succeed(job_id, np.array([[3, -12.5, np.inf], [0, 1, 2]], np.float32))
    page = get(quiet, f"/ui/jobs/{job_id}")
    cells = re.findall(r'<rect class="(above|below|odd)" .*? fill-opacity="([\d.]+)"><title>([^<]*)', page.html)
    assert cells[:3] == [
        ("above", "0.240", "row 0, column 0: 3"),
        ("below", "1.000", "row 0, column 1: -12.5"),
        ("odd", "1.000", "row 0, column 2: not finite"),
    ]
    assert "Each cell is an element." in page.text and "-12.5" in page.text
    api.store.delete(f"c_{job_id.removeprefix('job_')}_1", owner="anonymous")
    assert "Heat map" not in get(quiet, f"/ui/jobs/{job_id}").html  # its time is up; the page stays


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 5))
def test_cells_are_means_of_all_elements_of_a_small_product(m: int, n: int, seed: int) -> None:
    array = np.random.default_rng(seed).standard_normal((m, n))
    made = mapped(array)
    rows, columns = min(m, CELLS), min(n, CELLS)
    assert (len(made.rows), len(made.rows[0])) == (rows, columns)
    sides = [[extent * place // count for place in range(count + 1)] for extent, count in ((m, rows), (n, columns))]
    blocks = [[array[a:b, c:d] for c, d in pairwise(sides[1])] for a, b in pairwise(sides[0])]
    means = np.array([[block.mean() for block in row] for row in blocks])
    assert np.allclose(np.array([[cell.value for cell in row] for row in made.rows], np.float64), means, atol=1e-12)
    assert np.allclose([[cell.share for cell in row] for row in made.rows], abs(means) / made.largest)


def test_a_large_product_is_sampled_from_all_over() -> None:
    ramp = np.add.outer(np.arange(3000.0), np.zeros(2000)).astype(np.float32)
    means = [[cell.value for cell in row] for row in mapped(ramp).rows]
    assert means == pytest.approx(np.repeat(np.arange(62, 3000, 125.0)[:, None], CELLS, axis=1), abs=1)


def test_bfloat16_is_drawn_by_value() -> None:
    assert [[cell.value for cell in row] for row in mapped(narrow(np.array([[1.5, -2.0]])), widen).rows] == [[1.5, -2]]


# ---- its device ----
def throttled(place: int, **fields: Any) -> DeviceState:
    reasons = {"hw_thermal": 5} if place == 1 else {}
    return DeviceState(sm_clock_mhz=1900.0 - place, power_w_mean=600.0, event_reason_ns=reasons, **fields)


def test_telemetry_of_a_benchmark_as_strips_and_table(api: Api, quiet: httpx.Client) -> None:
    job_id = new(quiet)
    job = api.claim(job_id)
    cases = cases_of(job)
    backwards = sorted(cases, key=lambda case: case.id, reverse=True)  # as nothing but their events tells it
    records = [case_record(case, state=throttled(place)) for place, case in enumerate(backwards)]
    find(api, job, records, len(records))
    finish(api, job)
    page = get(quiet, f"/ui/jobs/{job_id}")
    assert "SM clock: 1 898 to 1 900 MHz, held down at 1 measurements" in page.text.replace("\u202f", " ")
    assert "Power: 600 to 600 W" in page.text and "Temperature:" not in page.text
    assert "<title>hw thermal</title>" in page.html
    table = page.html.split('id="telemetry-table"')[1]
    rows = re.findall(r'<th scope="row">cpu_blas float32 (\d+)<', table)
    assert rows == [str(case.problem.m) for case in backwards]
    assert "Results and charts" in page.text


def test_no_strip_without_figures() -> None:
    assert not strips_of([case_record(square(64)), case_record(square(128))])
    assert not strips_of([case_record(square(64), state=throttled(0))])


def test_what_went_wrong_is_told_newest_first(api: Api, quiet: httpx.Client) -> None:
    job_id = new(quiet)
    job = api.claim(job_id)
    one, two, three = cases_of(job)
    records = [
        case_record(one, status="oom", reason="Too large."),
        case_record(two, contended=True),
        case_record(three, status="incorrect", reason="Wrong in row 3."),
    ]
    find(api, job, records, 3)
    page = get(quiet, f"/ui/jobs/{job_id}")
    told = re.findall(r"<li><strong>([^<]*)</strong>\s*([^<]*)</li>", page.html)
    assert [sentence for _, sentence in told] == [
        "Wrong in row 3.",
        "Another process used the device while it was measured.",
        "Too large.",
    ]
    assert told[0][0] == "cpu_blas float32 256×256×256, round 1: incorrect"


# ---- again ----
def cloned(client: httpx.Client, job_id: str) -> tuple[str, Page]:
    page = get(client, f"/ui/jobs/{job_id}")
    (address,) = (link for link in page.links if link.startswith("/ui/multiply?"))
    return address, page


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"seed_b": "77", "transpose_b": "1", "distribution": "uniform", "dtype": "float64"},
        {"seed_c": "5", "alpha": "0.1234567890123", "beta": "-3"},
    ],
)
def test_a_clone_asks_for_the_same(quiet: httpx.Client, more: dict[str, str]) -> None:
    first = job_of(quiet, post(quiet, RANDOM | {"kernel": "cpu_blas"} | more))
    address, page = cloned(quiet, first["id"])
    again = job_of(quiet, post(quiet, dict(parse_qsl(urlsplit(address).query))))
    assert again["request"] == first["request"] and again["id"] != first["id"]
    assert any("urllib.request" in text for text in texts(page))


def test_a_clone_of_stored_matrices_names_them(quiet: httpx.Client) -> None:
    body = {"random": {"shape": [3, 3], "dtype": "float32", "seed": 1}}
    matrix = quiet.post("/v1/matrices", json=body).json()["id"]
    asked = {name: {"matrix": matrix} for name in "abc"}
    reply = quiet.post("/v1/matmul", json=asked, headers={"prefer": "respond-async"})
    address, _ = cloned(quiet, reply.json()["job"]["id"])
    fields = dict(parse_qsl(urlsplit(address).query))
    assert [fields[name] for name in ("source", "matrix_a", "matrix_b", "matrix_c")] == ["stored", *[matrix] * 3]
    assert job_of(quiet, post(quiet, fields))["request"] == reply.json()["job"]["request"]
    assert "There is no B" in Page(post(quiet, {"source": "stored", "matrix_a": matrix}), 422).alerts[0]


def test_a_clone_of_what_is_gone_asks_for_files(quiet: httpx.Client) -> None:
    address, _ = cloned(quiet, submit(quiet))
    assert dict(parse_qsl(urlsplit(address).query)) == {"source": "files", "kernel": "cpu_blas", "accuracy": "fp32"}


def test_what_no_form_says_is_not_cloned(quiet: httpx.Client) -> None:
    """It would ask for another product."""
    more: list[dict[str, Any]] = [{"bias": [1, 2, 3]}, {"activation": "gelu"}, {"output_dtype": "float16"}]
    for each in more:
        body = {name: {"random": {"shape": [3, 3]}} for name in "ab"} | each
        reply = quiet.post("/v1/matmul", json=body, headers={"prefer": "respond-async"})
        page = get(quiet, f"/ui/jobs/{reply.json()['job']['id']}")
        assert not [link for link in page.links if link.startswith("/ui/multiply?")]


# ---- only once ----
def test_a_form_sent_twice_multiplies_once(api: Api, quiet: httpx.Client) -> None:
    token = re.findall(r'name="token" value="(form_\w+)"', get(quiet, "/ui/multiply").html)[0]
    fields = RANDOM | {"token": token}
    first, second = (post(quiet, fields).headers["location"] for _ in range(2))
    assert first == second
    assert post(quiet, fields | {"m": "8"}).headers["location"] != first  # another product, asked on the same page
    assert post(quiet, RANDOM).headers["location"] != first
    assert token not in get(quiet, "/ui/multiply").html


def test_files_sent_twice_are_stored_once(api: Api, quiet: httpx.Client) -> None:
    pasted = {"source": "pasted", "a": "1 2\n3 4", "b": "5 6\n7 8", "token": "form_twice"}
    place = post(quiet, pasted).headers["location"]
    stored = api.stored_bytes()
    assert post(quiet, pasted).headers["location"] == place
    assert api.stored_bytes() == stored
