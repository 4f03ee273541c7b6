"""Who may do what: every operation of the API's manual × every kind of caller, so that no new route is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.audit import broken_at
from service.keys import Role, make_key
from tests.integration.api.test_jobs import PRODUCT, SEEDED, problem, submit
from tools.harness.api import FAKE_TTL_S, Api, npy, running_api, until, worker_info

PEPPER = "a pepper of more than sixteen bytes"
AN_HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
KEYS = {
    "owner": make_key("owner", PEPPER.encode()),
    "other": make_key("other", PEPPER.encode()),
    "reader": make_key("reader", PEPPER.encode(), role=Role.READER),
    "operator": make_key("operator", PEPPER.encode(), role=Role.OPERATOR),
    "expired": make_key("expired", PEPPER.encode(), expires_at=AN_HOUR_AGO),
    "revoked": make_key("revoked", PEPPER.encode()),
    "limited": make_key("limited", PEPPER.encode(), limits={"jobs": 2, "flops_per_minute": 1e6}),
}
SAFE = ("get", "head")
NAMES = {
    "/v1/kernels": "naive",
    "/v1/published": "t4_register_tile_2025",
    "/v1/benchmarks": "gflops",
    "/problems": "forbidden",
}
OPERATORS = {("get", "/v1/jobs/{job_id}"), ("get", "/v1/jobs/{job_id}/events"), ("post", "/v1/jobs/{job_id}/cancel")}
OBJECTS_ALONE = {"/v1/matrices/{matrix_id}/url"}  # other stores answer 501 to everyone
NOT_OPENED = {"/v1/uploads/{upload}"}  # nobody has one
SPEC = {"kernels": ["cpu_blas"], "shapes": [64]}


@dataclass
class Guarded:
    """A server with keys, what the owner has there, and its audit log."""

    api: Api
    audit: Path
    ids: Mapping[str, str]
    absent: Mapping[str, str]
    operations: list[tuple[str, str, bool]]  # verb, path, whether it needs a key

    def client(self, who: str) -> httpx.Client:
        return self.api.client(**({"authorization": f"Bearer {KEYS[who].key}"} if who in KEYS else {}))

    def ask(self, client: httpx.Client, verb: str, path: str, ids: Mapping[str, str]) -> httpx.Response:
        """Without a body. Fails on a path whose parameter this test does not know."""
        named = (
            {}
            if "{name}" not in path
            else {"name": next(name for start, name in NAMES.items() if path.startswith(start))}
        )
        job = ids["benchmark"] if path.startswith("/v1/benchmarks") else ids["job"]
        return client.request(
            verb,
            path.format(job_id=job, matrix_id=ids["matrix"], queue="cpu", worker="w", upload=ids["upload"], **named),
        )

    def told(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.audit.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def guarded(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("access")
    lines = " ".join(key.line for name, key in KEYS.items() if name != "revoked")
    settings = {"auth": "on", "api_keys": SecretStr(lines), "api_key_pepper": SecretStr(PEPPER)}
    audit = directory / "audit"
    with running_api(valkey, f"{new_id('access')}:", directory, audit_file=audit, **settings) as api:
        with api.client(authorization=f"Bearer {KEYS['owner'].key}") as owner:
            job, benchmark = submit(owner), owner.post("/v1/benchmarks", json=SPEC).json()["job"]["id"]
            api.succeed(job, PRODUCT)
            matrix = owner.post("/v1/matrices", content=npy(PRODUCT), headers={"content-type": "application/x-npy"})
            document = owner.get("/openapi.json").json()
        ids = {"job": job, "benchmark": benchmark, "matrix": matrix.json()["id"], "upload": new_id("upload")}
        absent = {"job": new_id("job"), "benchmark": new_id("job"), "matrix": "0" * 64, "upload": new_id("upload")}
        operations = [
            (verb, path, bool(operation["security"]))
            for path, verbs in document["paths"].items()
            for verb, operation in verbs.items()
        ]
        assert len(operations) > 25
        yield Guarded(api, audit, ids, absent, operations)


def wrong(guarded: Guarded, who: str, is_right: Callable[[str, str, bool, httpx.Response], bool]) -> list[str]:
    """The operations whose answer to that caller is not right."""
    with guarded.client(who) as client:
        replies = [(*one, guarded.ask(client, *one[:2], guarded.ids)) for one in guarded.operations]
    return [
        f"{verb} {path}: {reply.status_code}"
        for verb, path, locked, reply in replies
        if not is_right(verb, path, locked, reply)
    ]


@pytest.mark.parametrize("who", ["nobody", "expired", "revoked"])
def test_without_a_live_key_all_but_the_probes_is_401(guarded: Guarded, who: str) -> None:
    assert not wrong(guarded, who, lambda _verb, _path, locked, reply: (reply.status_code == 401) is locked)


def test_a_reader_changes_nothing(guarded: Guarded) -> None:
    def is_right(verb: str, path: str, locked: bool, reply: httpx.Response) -> bool:
        return not locked or (reply.status_code == 403) is (verb not in SAFE)

    assert not wrong(guarded, "reader", is_right)
    with guarded.client("reader") as reader:
        told = problem(reader.post("/v1/matmul", json={}), 403, "forbidden")
        assert told["detail"] == "This API key may only read; use one with the role submitter."
        assert reader.get("/v1/jobs").json() == {"jobs": [], "next": None}


@pytest.mark.parametrize("who", ["other", "reader", "operator"])
def test_what_is_another_s_is_not_there(guarded: Guarded, who: str) -> None:
    """On every verb the answer has the shape of that for what does not exist. Operators see and cancel jobs."""

    def shape(reply: httpx.Response) -> tuple[int, list[str], Any]:
        document = reply.json() if reply.content and reply.status_code >= 400 else {}
        varying = {"instance", "request_id"}
        headers = [name for name in reply.headers if name != "date"]
        return reply.status_code, headers, {name: value for name, value in document.items() if name not in varying}

    with guarded.client(who) as client:
        for verb, path, _ in guarded.operations:
            if "_id}" not in path or path in OBJECTS_ALONE or (who == "operator" and (verb, path) in OPERATORS):
                continue
            there, absent = (guarded.ask(client, verb, path, ids) for ids in (guarded.ids, guarded.absent))
            assert shape(there) == shape(absent), (verb, path)
            assert len(there.content) == len(absent.content), (verb, path)
            if verb in SAFE or who != "reader":
                assert there.status_code == 404 or verb == "put", (verb, path)


def test_the_owner_has_it_all(guarded: Guarded) -> None:
    # Of a benchmark that measured nothing yet there are none.
    unfinished = {"/v1/benchmarks/{job_id}/plots/{name}", "/v1/benchmarks/{job_id}/export", *OBJECTS_ALONE, *NOT_OPENED}

    def is_right(verb: str, path: str, locked: bool, reply: httpx.Response) -> bool:
        return verb not in SAFE or path in unfinished or reply.status_code in (200, 204, 503)

    with guarded.client("owner") as owner:
        for verb, path, _ in guarded.operations:
            if verb in SAFE:
                reply = guarded.ask(owner, verb, path, guarded.ids)
                assert is_right(verb, path, True, reply), (verb, path, reply.status_code)


def test_an_operator_sees_and_cancels_anyone_s_jobs(guarded: Guarded) -> None:
    """But reads no product, and no one else may ask for another's list."""
    owner_id = KEYS["owner"].line.split(":")[0]
    with guarded.client("operator") as operator, guarded.client("owner") as owner, guarded.client("other") as other:
        job = submit(owner)
        assert operator.get(f"/v1/jobs/{job}").json()["id"] == job
        listed = operator.get("/v1/jobs", params={"owner": owner_id}).json()["jobs"]
        assert job in [one["id"] for one in listed]
        assert operator.get("/v1/jobs").json()["jobs"] == []
        assert operator.get(f"/v1/jobs/{guarded.ids['job']}/product").status_code == 404
        refused = problem(other.get("/v1/jobs", params={"owner": owner_id}), 403, "forbidden")
        assert refused["detail"] == "This is for operators; use an API key with the role operator."
        assert operator.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
        assert operator.post(f"/v1/jobs/{job}/retry").status_code == 404
        assert operator.delete(f"/v1/jobs/{job}").status_code == 404
        assert owner.get(f"/v1/jobs/{job}").json()["state"] == "cancelled"


def test_the_job_that_a_worker_runs_is_named_to_its_owner(guarded: Guarded) -> None:
    """And to operators; others see that the worker is busy."""
    with guarded.client("owner") as owner:
        job = submit(owner)
        guarded.api.claim(job)
        busy = worker_info().model_copy(update={"job": job, "state": "busy"})
        guarded.api.registry.beat(busy, FAKE_TTL_S)
        for who, is_named in (("owner", True), ("operator", True), ("other", False), ("reader", False)):
            with guarded.client(who) as client:
                (device,) = client.get("/v1/devices").json()["devices"]
                assert (device["job"], device["state"]) == (job if is_named else None, "busy"), who
                overview = client.get("/").text
                assert (job in overview, ", busy" in overview) == (is_named, not is_named), who
        assert owner.post(f"/v1/jobs/{job}/cancel").status_code == 202
        guarded.api.registry.beat(worker_info(), FAKE_TTL_S)


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
def test_two_keys_are_none(guarded: Guarded, name: str) -> None:
    """What is in front of this server may have gone by the other."""
    begin = "Bearer " if name == "Authorization" else ""
    owner, other = ((name, begin + KEYS[who].key) for who in ("owner", "other"))
    with guarded.api.client() as client:
        told = problem(client.get("/v1/jobs", headers=[owner, other]), 400, "invalid_header")
        assert told["field"] == name and "comes with 2 values that differ" in told["detail"]
        assert client.get("/v1/jobs", headers=[owner, owner]).status_code == 200


def test_an_expired_key_is_told_so(guarded: Guarded) -> None:
    with guarded.client("expired") as client:
        told = problem(client.get("/v1/jobs"), 401, "unauthenticated")
    assert told["detail"] == f"This API key expired on {AN_HOUR_AGO:%Y-%m-%d at %H:%M} UTC; ask for a new one."


def test_what_is_changed_and_refused_is_told_in_the_audit_log(guarded: Guarded) -> None:
    def id_of(who: str) -> str:
        return KEYS[who].line.split(":")[0]

    before = len(guarded.told())
    with guarded.client("owner") as owner, guarded.client("reader") as reader, guarded.client("revoked") as revoked:
        job = submit(owner)
        cancelled = owner.post(f"/v1/jobs/{job}/cancel")
        owner.get(f"/v1/jobs/{job}")
        reader.delete(f"/v1/jobs/{job}")
        revoked.get("/v1/jobs")
    lines = guarded.told()[before:]
    assert [(one["key"], one["role"], one["action"], one["object"], one["result"]) for one in lines] == [
        (id_of("owner"), "submitter", "multiply", f"/v1/jobs/{job}", "202"),
        (id_of("owner"), "submitter", "cancel_job", job, "202"),
        (id_of("reader"), "reader", "refused", f"DELETE /v1/jobs/{job}", "forbidden"),
        (None, None, "refused", "GET /v1/jobs", "unauthenticated"),
    ]
    assert lines[1]["request_id"] == cancelled.headers["x-request-id"] and lines[1]["address"] == "127.0.0.1"
    text = guarded.audit.read_bytes()
    assert not [key for key in KEYS.values() if key.key.encode() in text]
    whole = text.splitlines()
    assert broken_at(whole) is None
    assert broken_at([*whole[:-2], whole[-1]]) == len(whole) - 1
    assert broken_at([*whole[:-2], whole[-2].replace(b"DELETE", b"GET"), whole[-1]]) == len(whole)


def test_a_key_s_own_limits_hold_on_every_way_in(guarded: Guarded) -> None:
    """Products, benchmarks, retries, chains and the pages' retries."""
    with guarded.client("limited") as limited:
        first, second = submit(limited), submit(limited)
        chained = {"a": {"job": first}, "b": {"random": {"shape": [2, 2]}}}
        for body in (SEEDED, chained, {"a": [[1]], "b": [[2]]}):
            refused = limited.post("/v1/matmul", json=body, headers={"prefer": "respond-async"})
            detail = problem(refused, 429, "quota_exceeded")["detail"]
            assert (
                detail.startswith("This API key has 2 jobs in flight, as many as it may")
                and refused.headers["retry-after"]
            )
        assert limited.post(f"/v1/jobs/{first}/cancel").status_code == 202
        third = submit(limited)
        problem(limited.post(f"/v1/jobs/{first}/retry"), 429, "quota_exceeded")
        many = limited.post("/ui/jobs/many", data={"action": "retry", "job": first})
        assert "changed=0" in many.headers["location"]
        assert limited.post(f"/v1/jobs/{third}/cancel").status_code == 202
        assert limited.post(f"/v1/jobs/{first}/retry").status_code == 202
        assert limited.post(f"/v1/jobs/{second}/cancel").status_code == 202
        benchmark = limited.post("/v1/benchmarks", json=SPEC).json()["job"]["id"]  # more than a minute's worth
        assert limited.post(f"/v1/jobs/{benchmark}/cancel").status_code == 202
        one = {"shape": [1, 1], "datatype": "FP32", "data": [1]}
        inference = "/v2/models/matmul/infer", {"inputs": [{"name": "A"} | one, {"name": "B"} | one]}
        retry = f"/v1/jobs/{benchmark}/retry"
        ways: list[tuple[str, Any]] = [("/v1/benchmarks", SPEC), (retry, {}), ("/v1/matmul", SEEDED), inference]
        for path, asked in ways:
            refused = limited.post(path, json=asked)
            told = problem(refused, 429, "quota_exceeded")
            assert "operations that it may in a minute" in told["detail"]
            assert told["retry_after_s"] == int(refused.headers["retry-after"]) > 60


def test_a_flood_of_wrong_keys_is_429_and_a_right_one_goes_on(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path
) -> None:
    keys = {"api_keys": SecretStr(KEYS["owner"].line), "api_key_pepper": SecretStr(PEPPER)}
    audit = tmp_path / "audit"
    limits = {"max_failed_keys_per_minute": 3, "audit_file": audit}
    with running_api(valkey, key_prefix, tmp_path, auth="on", **keys, **limits) as api:
        with api.client(authorization=f"Bearer {KEYS['other'].key}") as wrong_key:
            statuses = [wrong_key.get("/v1/jobs").status_code for _ in range(5)]
            assert statuses == [401, 401, 401, 429, 429]
            refused = wrong_key.post("/ui/sign-in", data={"key": "mm_x_y"})
            assert (refused.status_code, refused.headers["content-type"][:9]) == (429, "text/html")
            assert problem(wrong_key.get("/v1/jobs"), 429, "too_many_attempts")["retry_after_s"] == 60
        with api.client(authorization=f"Bearer {KEYS['owner'].key}") as right, api.client() as nobody:
            assert right.get("/v1/jobs").status_code == 200
            assert nobody.get("/v1/jobs").status_code == 401  # who sends no key guesses none
        # The sign-in is an exchange; what is past the limit is not told.
        until(lambda: len(audit.read_bytes().splitlines()) >= 4)
        assert len(audit.read_bytes().splitlines()) == 4
