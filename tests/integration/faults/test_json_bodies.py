"""JSON that a parser takes and a writer does not, and much JSON at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

import httpx
import pytest

from jobs.errors import InvalidRequest
from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.api_process import body_memory as memory
from service.api_process.body_memory import BodyMemory
from service.benchmarks.body import SPEC_BYTES
from service.bodies import reader
from service.bodies.json import JsonReader
from service.bodies.reader import MatmulInput
from service.problems import TooManyBodies
from tools.harness.api import JSON, Api, running_api

OK = '"a":[[1]],"b":[[1]]'
HUGE = "9" * 30
DEEP = "[" * 300 + "]" * 300
DEEP_OBJECTS = '{"a":' * 300 + "1" + "}" * 300
BODIES = {
    "/v1/matmul": [
        f'{{{OK},"config":{DEEP}}}',
        f'{{{OK},"config":{"[" * 1000 + "]" * 1000}}}',
        f'{{{OK},"config":{"[" * 5000 + "]" * 5000}}}',
        f'{{{OK},"config":{{"block_m":NaN}}}}',
        f'{{{OK},"config":{{"block_m":{HUGE}}}}}',
        f'{{{OK},"seed":1e400,"x":{HUGE}}}',
        f'{{"a":[[NaN]],"b":[[1]],"config":{{"block_m":{HUGE}}}}}',
        f'{{"a":{{"random":{{"shape":[2,2],"seed":{HUGE}}}}},"b":[[NaN]]}}',
        f'{{"a":{{"matrix":{DEEP}}},"b":[[1]]}}',
        f'{{"a":{{"random":{DEEP_OBJECTS}}},"b":[[1]]}}',
        '{"a":[[NaN]],"b":[[1]],"kernel":"\\ud800"}',
        '{"a":[[NaN]],"b":[[1]],"\\ud800":1}',
        '{"a":[[NaN,"\\ud800"]],"b":[[1]]}',
        '{"a":[["\\ud83d"]],"b":[[1]]}',
        '{"a":{"matrix":"\\ud800"},"b":[[NaN]]}',
        '{"a":[[1]],"b":[[NaN]],"x":"\\ud800"}',
    ],
    "/v1/matrices": [
        f'{{"random":{DEEP}}}',
        f'{{"random":{{"shape":[2,2],"seed":{HUGE},"x":NaN}}}}',
        '{"random":{"shape":[2,2],"dtype":"\\ud800","x":NaN}}',
        '{"random":"\\ud800","x":NaN}',
        '{"data":[[1]],"dtype":"\\ud800","x":Infinity}',
    ],
    "/v1/benchmarks": [
        f'{{"kernels":"ladder","shapes":[64],"configs":{DEEP}}}',
        f'{{"kernels":"ladder","shapes":[64],"title":{DEEP_OBJECTS}}}',
        f'{{"shapes":[64],"tags":[NaN],"data":{{"seed":{HUGE}}}}}',
        '{"shapes":[64],"title":"\\ud800","tags":[NaN]}',
        f'{{"preset":{DEEP}}}',
        f'{{"preset":"quick","title":{DEEP}}}',
        '{"preset":{"a":1}}',
        '{"preset":NaN}',
        '{"preset":"\\ud800","x":NaN}',
    ],
}


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(valkey, f"{new_id('json')}:", tmp_path_factory.mktemp("json")) as running:
        yield running


@pytest.mark.parametrize("many", ["{},", '{"x":1},'])
def test_very_many_objects_are_refused_before_they_are_parsed(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB of them would take seconds of all threads."""
    monkeypatch.setattr(reader, "loads", lambda *_: pytest.fail("it was parsed"))
    with pytest.raises(InvalidRequest, match=r"has more objects, or names in them, than are read here: 50000\."):
        reader.json_object(f'{{"a":[{many * reader.MAX_NAMES}1]}}'.encode())


def test_the_largest_request_has_fewer() -> None:
    shapes = ",".join(['{"n":1}'] * (SPEC_BYTES // len('{"n":1},')))
    assert reader.json_object(f'{{"shapes":[{shapes}]}}'.encode())


@pytest.mark.parametrize(("path", "body"), [(path, body) for path, bodies in BODIES.items() for body in bodies])
def test_what_cannot_be_written_again_is_refused(quiet: httpx.Client, path: str, body: str) -> None:
    reply = quiet.post(path, content=body, headers=JSON)
    assert reply.status_code in (400, 422), reply.text
    assert reply.json()["detail"].endswith(".")


TWICE = {
    "/v1/matmul": [
        (f'{{"a":[[2]],{OK}}}', "a"),
        (f'{{{OK},"kernel":"nope","kernel":"auto"}}', "kernel"),
        ('{"a":{"random":{"shape":[1,1],"seed":1,"seed":2}},"b":[[1]]}', "seed"),
        (f'{{{OK},"alpha":1,"\\u0061lpha":2}}', "alpha"),
    ],
    "/v1/matrices": [('{"data":[[1]],"data":[[2]]}', "data"), ('{"data":[[NaN]],"data":[[2]]}', "data")],
    "/v1/benchmarks": [
        ('{"preset":"nope","preset":"quick"}', "preset"),
        ('{"preset":"quick","title":"sizes: small","shapes":[64,{"m":1,"n":1,"k":1,"m":2}]}', "m"),
    ],
    "/v2/models/matmul/infer": [('{"inputs":[{"name":"A","name":"B"}]}', "name")],
}


@pytest.mark.parametrize(("path", "body", "name"), [(path, *case) for path, cases in TWICE.items() for case in cases])
def test_a_name_that_comes_twice_is_refused(quiet: httpx.Client, path: str, body: str, name: str) -> None:
    """Whichever value a parser in front of this server takes, it is not the request that is carried out."""
    reply = quiet.post(path, content=body, headers=JSON)
    assert reply.status_code == 422, reply.text
    assert (reply.json()["field"], reply.json()["detail"]) == (name, f"The field {name} comes twice; send it once.")


@pytest.mark.parametrize(
    "body",
    [
        '{"preset":"quick","title":"sizes: small"}',
        '{"preset":"quick","shapes":[64,{"m":1,"n":1,"k":1},{"m":2,"n":2,"k":2}]}',
    ],
)
def test_colons_and_names_of_several_objects_are_no_names_that_come_twice(quiet: httpx.Client, body: str) -> None:
    reply = quiet.post("/v1/benchmarks?dry_run=true", content=body, headers=JSON)
    assert reply.status_code == 200, reply.text


def test_large_bodies_are_parsed_a_few_at_a_time(
    api: Api, quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is many times its size while it is."""
    row = [1.0] * 20_000
    body = json.dumps({"a": [row] * 2, "b": [[1.0]] * 20_000}).encode()
    monkeypatch.setattr(memory, "PARSED_BYTES", 2 * len(body))
    lock, now, most, parse = Lock(), 0, 0, JsonReader.finish

    def finish(self: JsonReader) -> MatmulInput:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return parse(self)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(JsonReader, "finish", finish)
    with ThreadPoolExecutor(10) as pool:
        headers = {**JSON, "prefer": "respond-async"}
        replies = list(pool.map(lambda _: quiet.post("/v1/matmul", content=body, headers=headers), range(20)))
    assert {reply.status_code for reply in replies} == {202}
    assert 1 <= most <= 2


def test_json_that_memory_has_no_room_for_is_refused(quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_BYTES", 200_000)
    body = json.dumps({"a": [[1.0]], "b": [[1.0]]}).encode()
    headers = {**JSON, "prefer": "respond-async"}
    refused = quiet.post("/v1/matmul", content=body.ljust(300_000), headers=headers)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["type"] == "/problems/too_many_bodies"
    for _ in range(5):  # what was refused, or is done, takes no room
        assert quiet.post("/v1/matmul", content=body.ljust(150_000), headers=headers).status_code == 202


def test_turns() -> None:
    """Those that came first go first, one that leaves lets the next go, and one that is alone always goes."""

    async def run() -> list[str]:
        bodies, done = BodyMemory(), list[str]()

        async def parse(name: str, size: int, until: asyncio.Event) -> None:
            async with bodies.parsing(size):
                done.append(name)
                await until.wait()

        first, never = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(parse("first", 10 * memory.PARSED_BYTES, first))]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(parse(name, memory.PARSED_BYTES, never)) for name in ("second", "third")]
        tasks += [asyncio.create_task(parse("short", memory.FREE_BYTES, never))]
        await asyncio.sleep(0)
        tasks[1].cancel()
        first.set()
        for _ in range(5):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with bodies.parsing(memory.PARSED_BYTES):
            done.append("last")
        return done

    assert asyncio.run(run()) == ["first", "short", "third", "last"]


def test_room_is_given_back() -> None:
    bodies = BodyMemory()
    bodies.keep(memory.KEPT_BYTES)
    with pytest.raises(TooManyBodies):
        bodies.keep(memory.FREE_BYTES + 1)
    bodies.keep(memory.FREE_BYTES)
    bodies.let_go(memory.KEPT_BYTES)
    bodies.keep(memory.FREE_BYTES + 1)


def test_one_key_leaves_room_to_others() -> None:
    """However many bodies it sends, and however slowly."""
    mib = 1 << 20
    bodies = BodyMemory(8 * mib)

    def kept(owner: str) -> int:
        """MiB of that owner, until it gets no more."""
        count = 0
        with suppress(TooManyBodies):
            while count < 1000:
                bodies.keep(mib, owner)
                count += 1
        return count

    assert 128 * mib == memory.KEPT_BYTES
    assert [kept(owner) for owner in ("alice", "bob", "carol", "dave", "erin")] == [64, 32, 16, 8, 8]
    assert kept("frank") == 0
    bodies.let_go(64 * mib, "alice")
    assert (kept("bob"), kept("grace")) == (16, 24)
    alone = BodyMemory(100 * mib)
    alone.keep(100 * mib, "alice")
    with pytest.raises(TooManyBodies):
        alone.keep(mib, "alice")
    alone.keep(28 * mib)
