"""`/ui/devices`: what live workers run on."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from jobs.fleet.workers import Ceilings, Telemetry
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from kernels.published import PUBLISHED
from tests.integration.api.test_benchmark_results import done, new
from tests.support.http.pages import Page, assert_no_dead_links, get
from tools.harness.api import FAKE_TTL_S, Api, running_api, until, worker_info
from tools.harness.benchmarks import H200, case_record, cases_of, find, finish

DEVICE = H200.model_copy(
    update={
        "theoretical": Ceilings(memory_gb_s=4800.0, gflops={"float32": 66908.0, "float64": 33454.0}),
        "measured": Ceilings(memory_gb_s=4320.0, gflops={"float32": 60217.2}),
        "versions": {"driver": "580.1 <new>"},
    }
)
TELEMETRY = Telemetry(temperature_c=41.0, power_w=120.5, clock_mhz=1980.0, throttle_reasons=("sw_power_cap",))


@pytest.fixture(scope="module")
def two(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with an H200 beside the CPU."""
    with running_api(valkey, f"{new_id('dev')}:", tmp_path_factory.mktemp("dev")) as api:
        gpu = worker_info("gpu-0", kernels=("naive", "cublas")).model_copy(
            update={"device": DEVICE, "telemetry": TELEMETRY}
        )
        api.registry.beat(gpu, FAKE_TTL_S)
        yield api


@pytest.fixture(scope="module")
def page(two: Api) -> Page:
    with two.client() as client:
        until(lambda: "gpu-0" in client.get("/ui/devices").text)
        return get(client, "/ui/devices")


def section(page: Page, device: str) -> str:
    return next(part for part in page.html.split("<section") if f">{device}</h2>" in part)


def test_specs_and_versions(page: Page) -> None:
    told = section(page, "NVIDIA H200")
    for words in ("<dd>9.0</dd>", "<dd>132</dd>", "<dd>150 GiB</dd>", "<dd>227 KiB</dd>", "580.1 &lt;new&gt;"):
        assert words in told
    assert "serves 2 kernels" in told
    assert "serves 1 kernel." in section(page, "A CPU")


def test_roofs_side_by_side(page: Page) -> None:
    told = section(page, "NVIDIA H200")
    rows = [part.partition("</tr>")[0] for part in told.split('<tr><th scope="row">')[1:]]
    assert [row.partition("<")[0] for row in rows] == ["Device memory", "float32", "float64"]
    assert "90.0 %" in rows[0]
    assert "66\u202f908" in rows[1]
    assert "60\u202f217" in rows[1]
    assert rows[2].count("–") == 2  # its roof was not measured, so nothing is a share of it
    assert "have not been measured" not in told
    assert "have not been measured, and they do not follow from its attributes" in section(page, "A CPU")


def test_telemetry_is_a_gpus(page: Page) -> None:
    told = section(page, "NVIDIA H200")
    for words in ("41 °C", "120.5 W", "1\u202f980 MHz", "sw_power_cap"):
        assert words in told
    assert "°C" not in section(page, "A CPU")


def test_a_button_measures_its_roofs(page: Page) -> None:
    assert page.forms.count("/ui/benchmarks") == 2
    for device in ("NVIDIA H200", "A CPU"):
        told = section(page, device)
        assert '<input type="hidden" name="preset" value="ceilings">' in told
        assert f'<input type="hidden" name="device" value="{device}">' in told


def test_published_tables_stand_with_their_device(page: Page) -> None:
    ours = {f"/ui/published/{one.name}" for one in PUBLISHED.values() if one.device.name == "NVIDIA H200"}
    told = section(page, "NVIDIA H200")
    assert ours and all(f'href="{address}"' in told for address in ours)
    assert "/ui/published/" not in section(page, "A CPU")
    for one in PUBLISHED.values():
        assert f"/ui/published/{one.name}" in page.links
    with_links = [link for link in page.links if link.startswith("/ui/devices/history")]
    assert sorted(with_links) == ["/ui/devices/history?device=A+CPU", "/ui/devices/history?device=NVIDIA+H200"]


def test_a_history_marks_what_became_slower(two: Api) -> None:
    """Nine runs alike, then one at half the speed: a regression of each of its cases."""
    with two.client() as client:
        assert "0 finished benchmarks" in get(client, "/ui/devices/history?device=A%20CPU").text
        runs = [done(two, client, gflops=10.0) for _ in range(9)]
        before = get(client, "/ui/devices/history?device=A%20CPU")
        assert "9 finished benchmarks" in before.text and "none" in before.text
        assert 'class="mark' not in before.html
        slow = done(two, client, gflops=5.0)
        after = get(client, "/ui/devices/history?device=A%20CPU")
        marks = re.findall(r'<a href="/ui/benchmarks/(\w+)" class="mark (\w+)">', after.html)
        assert marks == [(slow, "regression")] * 3
        assert after.html.count('<circle class="regression"') == 3
        assert f"/ui/benchmarks/{runs[0]}" not in after.links
        assert "GFLOPS from 10 to 5 in 10 runs" in after.html
        assert_no_dead_links(client, after)
        job = two.claim(new(client))
        find(two, job, [case_record(case, gflops=2.0, contended=True) for case in cases_of(job)], 3)
        finish(two, job)
        disturbed = get(client, "/ui/devices/history?device=A%20CPU").html
        assert disturbed.count('<circle class="disturbed"') == disturbed.count("contended: Another process used") == 3
        assert disturbed.count('<circle class="regression"') == 3
        assert "No benchmark with figures" in get(client, "/ui/devices/history?device=Another").text
        assert "3 of 3 cases became slower or faster for good, in 11 runs" in get(client, "/ui/devices/history").text


def test_a_history_without_a_device_is_of_the_newest_benchmarks(
    valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_api(valkey, f"{new_id('dev')}:", tmp_path_factory.mktemp("dev")) as api, api.client() as client:
        until(lambda: "A CPU" in client.get("/ui/devices").text)
        empty = get(client, "/ui/devices/history")
        assert "No benchmark with figures has finished on A CPU" in empty.text
        done(api, client, gflops=10.0)
        api.registry.beat(worker_info("gpu-0", name="NVIDIA H200", device_class="gpu"), FAKE_TTL_S)
        page = get(client, "/ui/devices/history")
        assert "<h1>History of A CPU</h1>" in page.html
        assert "none of 3 cases became slower or faster for good, in 1 run; a change shows from 9" in page.text
        until(lambda: "/ui/devices/history?device=NVIDIA+H200" in get(client, "/ui/devices/history").links)


def test_recorded_runs_of_a_table_are_told_by_their_days(page: Page) -> None:
    assert re.search(r"NVIDIA H200 \d+ \d+ 2026-11-\d\d to 2026-11-\d\d, in \d+ runs", page.text)
    assert not re.search(r"\d\dT\d\d:\d\d:\d\d\.\d", page.text)
