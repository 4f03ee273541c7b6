"""Queues paused and workers drained over HTTP; dead letters; for operators alone, and in the audit log."""

from __future__ import annotations

import httpx

from jobs.models import new_id
from service.pause import Pause
from tests.integration.api.test_jobs import ASYNC, SEEDED, problem
from tests.support.http.pages import get
from tools.harness.api import FAKE_TTL_S, Api, worker_info


def submit(client: httpx.Client) -> str:
    return str(client.post("/v1/matmul", json=SEEDED, headers=ASYNC).json()["job"]["id"])


def queue(client: httpx.Client, name: str) -> dict[str, object]:
    found = client.get("/v1/queues").json()["queues"]
    return dict(next(each for each in found if each["name"] == name))


def test_a_queue_is_paused_alone(api: Api, quiet: httpx.Client) -> None:
    paused = quiet.post("/v1/queues/cpu/pause").json()
    assert paused["paused"] and paused["workers"] == ["played"] and not queue(quiet, "gpu")["paused"]
    job_id = submit(quiet)
    assert not api.ledger.claim(job_id, 1, worker="played", lease_s=60)
    assert api.ledger.lost_messages("cpu", broker_is_empty=True, grace_s=0) == []
    assert not quiet.post("/v1/queues/cpu/resume").json()["paused"]
    assert api.ledger.claim(job_id, 1, worker="played", lease_s=60)
    assert quiet.post("/v1/queues/nope/pause").json()["detail"].startswith("There is no queue 'nope'; there are ")


def test_a_repeated_pause_does_not_pause_again(api: Api, quiet: httpx.Client) -> None:
    for path in ("/v1/queues/cpu", "/v1/queues"):
        keyed = {"idempotency-key": new_id("key")}
        assert "idempotent-replayed" not in quiet.post(f"{path}/pause", headers=keyed).headers
        assert not quiet.post(f"{path}/resume").json()["paused"]
        again = quiet.post(f"{path}/pause", headers=keyed)
        assert again.headers["idempotent-replayed"] == "true" and not again.json()["paused"]
        problem(quiet.post(f"{path}/resume", headers=keyed), 422, "idempotency_key_reused")


def test_the_page_does_the_same_and_says_it(api: Api, quiet: httpx.Client) -> None:
    for what, name, words in (("pause", "gpu", "paused"), ("pause", "", "The whole service is paused")):
        assert quiet.post("/ui/operations", data={"what": what, "name": name}).status_code == 303
        assert words in get(quiet, "/ui/operations").text
    assert "Service" in get(quiet, "/").text
    for name in ("", "gpu"):
        assert quiet.post("/ui/operations", data={"what": "resume", "name": name}).status_code == 303
    page = get(quiet, "/ui/operations")
    assert "The whole service is paused" not in page.text and "paused" not in page.html.split("<tbody>")[1]
    assert get_alert(quiet, {"what": "burn", "name": ""}) == "what must be one of pause, resume, drain and undrain."


def get_alert(client: httpx.Client, form: dict[str, str]) -> str:
    reply = client.post("/ui/operations", data=form)
    assert reply.status_code == 422
    return reply.text.split('role="alert">')[1].split("<")[0]


def test_a_worker_is_drained_by_its_name(api: Api, quiet: httpx.Client) -> None:
    api.registry.beat(worker_info("a/host/cpu/7"), FAKE_TTL_S)
    keyed = {"idempotency-key": new_id("key")}
    said = quiet.post("/v1/workers/a/host/cpu/7/drain", headers=keyed).json()
    assert said["drained"] and api.registry.is_drained("a/host/cpu/7")
    again = quiet.post("/v1/workers/a/host/cpu/7/drain", headers=keyed)
    assert again.headers["idempotent-replayed"] == "true" and again.json()["drained"]
    drained = worker_info("a/host/cpu/7").model_copy(update={"state": "drained"})
    assert api.registry.beat(drained, FAKE_TTL_S)
    assert "a/host/cpu/7" not in queue(quiet, "cpu")["workers"]  # type: ignore[operator]
    assert quiet.post("/ui/operations", data={"what": "undrain", "name": "a/host/cpu/7"}).status_code == 303
    assert not api.registry.is_drained("a/host/cpu/7")
    assert quiet.post("/v1/workers/nobody/drain").status_code == 404
    api.registry.gone("a/host/cpu/7")


def dead_letter(api: Api, client: httpx.Client) -> str:
    job_id = submit(client)
    assert api.ledger.claim(job_id, 1, worker="played", lease_s=0)
    assert api.ledger.take_back(job_id, 1, max_attempts=1)
    return job_id


def test_dead_letters_are_listed_retried_and_deleted(api: Api, quiet: httpx.Client) -> None:
    one, two, three = (dead_letter(api, quiet) for _ in range(3))
    listed = quiet.get("/v1/dead-letters").json()["jobs"]
    assert [job["id"] for job in listed] == [three, two, one]
    page = get(quiet, "/ui/dead-letters")
    assert f"/ui/jobs/{one}" in page.links and "worker_lost" in page.text
    many = get(quiet, f"/ui/jobs/many?back=dead&action=retry&job={one}")
    assert "Retry 1 job" in many.text and "/ui/dead-letters" in many.links
    done = quiet.post("/ui/jobs/many", data={"action": "retry", "back": "dead", "job": one})
    assert done.headers["location"].startswith("/ui/dead-letters?did=retry&changed=1")
    assert "1 job queued again." in get(quiet, done.headers["location"]).text
    assert "Delete 2 jobs" in get(quiet, "/ui/jobs/many?back=dead&action=delete&scope=dead").text
    quiet.post("/ui/jobs/many", data={"action": "delete", "back": "dead", "scope": "dead"})
    assert quiet.get(f"/v1/jobs/{two}").status_code == 404 and quiet.get(f"/v1/jobs/{one}").status_code == 200
    assert "There are none" in get(quiet, "/ui/dead-letters").text


def test_the_command_pauses_one_queue(api: Api) -> None:
    pause = Pause(api.ledger._client, api.settings.key_prefix)
    pause.begin("gpu")
    assert pause.queues() == ["gpu"] and not pause.is_on()
    pause.end("gpu")
    assert not pause.queues()
