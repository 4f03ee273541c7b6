"""What each product runs is functions that Redis keeps, and the same scripts where it keeps none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from jobs.errors import QueueFull, QuotaExceeded
from jobs.ledger.interface import Success
from jobs.ledger.limits import Quota
from jobs.ledger.messages import JobMessage
from jobs.ledger.redis import RedisLedger
from jobs.matrices.factory import bounds_of
from jobs.models import ANONYMOUS, Job, NewJob
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.redis.functions import KEPT, LAST_LINE, Functions
from jobs.redis.line import ScriptLine
from jobs.requests.job_matrices import JobMatrices
from jobs.settings import Settings
from jobs.states import JobState
from tests.support.ledger.ledgers import Clock, assert_books_agree, new_job, outcome
from tests.support.ledger.memory_ledger import MemoryLedger

pytestmark = pytest.mark.anyio
PREFIX = "matmul:"
PACKED = b"x" * 264


@pytest.fixture
def server(own_server: EmbeddedServer) -> EmbeddedServer:
    return own_server


@contextmanager
def ledger_of(url: str, quota: Quota | None = None) -> Iterator[RedisLedger]:
    """As a process with that user has it."""
    settings = Settings(redis_url=SecretStr(url))
    with connect(settings) as client:
        yield make_ledger(settings, client, *([lambda _: quota] if quota else []))


@asynccontextmanager
async def line_of(url: str, ledger: RedisLedger) -> AsyncIterator[ScriptLine]:
    line = ScriptLine(Settings(redis_url=SecretStr(url)), ledger.scripts)
    try:
        yield line
    finally:
        await line.close()


def small(owner: str = ANONYMOUS, **more: Any) -> NewJob:
    matrices = JobMatrices(a=PACKED, b=PACKED, product_bytes=len(PACKED), ttl_s=60)
    return new_job(owner, matrices=matrices, batch="small", **more)


def calls(client: redis.Redis) -> dict[str, int]:
    """How many functions and scripts ran."""
    stats: Any = client.info("commandstats")
    found = {name: stats.get(f"cmdstat_{name}", {}) for name in ("fcall", "evalsha", "eval")}
    done = {name: each.get("calls", 0) - each.get("failed_calls", 0) for name, each in found.items()}
    return {"functions": done["fcall"], "scripts": done["evalsha"] + done["eval"]}


def lived(api: RedisLedger, worker: RedisLedger, root: redis.Redis) -> dict[str, int]:
    """A product from its submission to its end; how many functions and scripts that took."""
    before = calls(root)
    job, message = api.submit(small(), max_queued=9, max_queued_per_owner=9)
    assert message is not None and job.record.queue_position == 1
    assert worker.claim(job.id, 1, worker="w", lease_s=60)
    assert worker.succeed_all([Success(job.id, 1, outcome(), PACKED)]) == [1]
    after = calls(root)
    done = api.get(job.id)
    assert done.record.state is JobState.SUCCEEDED and done.record.timing is not None
    assert assert_books_agree(root, PREFIX)
    return {name: after[name] - before[name] for name in after if after[name] > before[name]}


def test_a_worker_calls_the_functions_that_the_api_loaded(server: EmbeddedServer) -> None:
    with ledger_of(server.url_of("api")) as api, ledger_of(server.url_of("worker")) as worker, server.client() as root:
        assert lived(api, worker, root) == {"scripts": 3}  # nobody has loaded any
    with ledger_of(server.url_of("api")) as api, ledger_of(server.url_of("worker")) as worker, server.client() as root:
        api.scripts.load_functions()
        assert lived(api, worker, root) == {"functions": 3}
        server.stop()
        server.start()
        with server.client() as root:
            assert lived(api, worker, root) == {"functions": 3}  # they are in the append-only file
            root.execute_command("FUNCTION", "FLUSH")
            assert lived(api, worker, root)["scripts"] == 3


@pytest.mark.parametrize("command", ["fcall", "function|load"])
def test_a_user_who_may_not_call_or_load_them_runs_scripts(server: EmbeddedServer, command: str) -> None:
    """As one that was set up for a version before."""
    with server.client() as root, ledger_of(server.url_of("api")) as api:
        root.execute_command("ACL", "SETUSER", "matmul-api", f"-{command}")
        api.scripts.load_functions()
        assert lived(api, api, root) == {"scripts": 3}


def test_a_worker_may_not_load_any(server: EmbeddedServer) -> None:
    with ledger_of(server.url_of("worker")) as worker, server.client() as root:
        worker.scripts.load_functions()
        assert root.function_list() == []


def library_of(version: int) -> Functions:
    """Another one than the ledger's."""
    text = f"local function main() return {version} end\nreturn main(ARGV)"
    return Functions(PREFIX, "local function begin() end", {f"f_{version}": ("", text)})


def test_libraries_of_old_versions_go(server: EmbeddedServer) -> None:
    with ledger_of(server.url_of("api")) as api, server.client() as root:
        api.scripts.load_functions()
        for version in range(KEPT + 2):
            library_of(version).load(root)
        names = {library[1] for library in root.function_list()}
        assert len(names) == KEPT
        assert lived(api, api, root)["scripts"] == 3  # its library was the oldest: scripts do for now
        api.scripts.load_functions()
        assert lived(api, api, root) == {"functions": 3}


def test_those_from_before_a_flushall_go_too(server: EmbeddedServer) -> None:
    """It empties the list of libraries and leaves the libraries. Those of another prefix are not ours."""
    with server.client() as root, ledger_of(server.url_of("api")) as api:
        others = Functions(
            "other:", "local function begin() end", {"f": ("", f"local function main() end\n{LAST_LINE}")}
        )
        others.load(root)
        for version in range(3):
            library_of(version).load(root)
        root.flushall()
        for version in range(3, 3 + KEPT - 1):
            library_of(version).load(root)
        api.scripts.load_functions()
        names = {library[1].decode() for library in root.function_list()}
        kept = {library_of(version).library for version in range(3, 3 + KEPT - 1)}
        assert api.scripts.functions and names == kept | {api.scripts.functions.library, others.library}


def test_processes_that_start_together_remove_none(server: EmbeddedServer) -> None:
    """Each has taken its library off the list before the first puts it down again."""
    with ledger_of(server.url_of("api")) as api, server.client() as root:
        functions = api.scripts.functions
        assert functions is not None
        library_of(1).load(root)
        for command in functions.loading():
            for _ in range(2 * KEPT):
                root.execute_command(*command)
        library_of(2).load(root)
        assert len(root.function_list()) == 3
        assert lived(api, api, root) == {"functions": 3}


def test_a_call_that_failed_leaves_nothing_to_the_next(server: EmbeddedServer) -> None:
    with ledger_of(server.url) as api, server.client() as root:
        api.scripts.load_functions()
        job, _ = api.submit(small(), max_queued=9, max_queued_per_owner=9)
        assert api.claim(job.id, 1, worker="w", lease_s=60)
        broken: list[str | bytes] = ["1000", job.id, "1", "{}", "k", "A CPU", PACKED, "", "no numbers at all"]
        with pytest.raises(redis.ResponseError, match="arithmetic"):
            api.scripts.run("succeed", *broken)
        assert api.get(job.id).record.state is JobState.RUNNING
        assert api.succeed_all([Success(job.id, 1, outcome(), PACKED)]) == [1]
        assert lived(api, api, root) == {"functions": 3}
        assert api.get(job.id).record.kernel == "cpu_blas"


def told(job: Job, message: JobMessage | None) -> tuple[int | None, int | None]:
    """Its number, and its place in the queue where it has a message: of others it is that at the end of the step."""
    number = None if message is None else message.number
    return number, job.record.queue_position if number is not None and number > 0 else None


@pytest.mark.parametrize("loaded", [True, False])
async def test_those_recorded_in_one_step_are_as_if_one_by_one(server: EmbeddedServer, loaded: bool) -> None:
    """Each bound is met in the middle of a step, and a job comes twice."""
    owners = [ANONYMOUS, "alice", "alice", "bob", "bob", "alice", ANONYMOUS, "bob"] * 3
    jobs = [small(owner, kernel="auto", queue="cpu" if i % 5 else "gpu") for i, owner in enumerate(owners)]
    jobs.insert(9, jobs[4])
    limits: dict[str, Any] = {"max_queued": 14, "max_queued_per_owner": 5}
    model = MemoryLedger(clock=Clock(), bounds=bounds_of(Settings()))
    expected: list[tuple[Any, ...]] = []
    for job in jobs:
        try:
            recorded, message = model.submit(job, **limits)
            expected.append(told(recorded, message))
        except Exception as error:
            expected.append((type(error),))
    with ledger_of(server.url_of("api")) as api, server.client() as root:
        if loaded:
            api.scripts.load_functions()
        else:
            api.scripts.functions = None
        async with line_of(server.url_of("api"), api) as line:
            before = calls(root)
            asked = (api.submit_on(line, job, **limits) for job in jobs)
            replies = await asyncio.gather(*asked, return_exceptions=True)
            after = calls(root)
        ran = {name: after[name] - before[name] for name in after}
        assert ran == {"functions": int(loaded), "scripts": int(not loaded)}, str(replies[0])
        rows = [None if isinstance(reply, BaseException) else reply.row for reply in replies]
        twice = rows[9], rows[4]
        assert twice[0] is not None and twice[1] is not None and twice[0].number == twice[1].number
        found = [
            (type(reply),)
            if isinstance(reply, BaseException)
            else told(reply.job, None if index == 9 else reply.row.message())
            for index, reply in enumerate(replies)
        ]
        assert found == expected
        assert {each[0] for each in found if len(each) == 1} == {QueueFull, QuotaExceeded}
        assert assert_books_agree(root, PREFIX) == sum(len(each) == 2 for each in found) - 1


async def test_the_line_loads_the_functions_that_redis_lost(server: EmbeddedServer) -> None:
    with ledger_of(server.url_of("api")) as api, server.client() as root:
        async with line_of(server.url_of("api"), api) as line:
            for _ in range(2):
                root.execute_command("FUNCTION", "FLUSH")
                jobs = [small() for _ in range(40)]
                recorded = await asyncio.gather(
                    *(api.submit_on(line, job, max_queued=999, max_queued_per_owner=999) for job in jobs)
                )
                assert [each.job.id for each in recorded] == [job.id for job in jobs]
                assert lived_calls(root, api) == {"functions": 1}


async def test_the_line_loads_none_for_a_user_who_may_not_call_them(server: EmbeddedServer) -> None:
    with ledger_of(server.url_of("api")) as api, server.client() as root:
        root.execute_command("ACL", "SETUSER", "matmul-api", "-fcall")
        async with line_of(server.url_of("api"), api) as line:
            for _ in range(3):
                await api.submit_on(line, small(), max_queued=999, max_queued_per_owner=999)
        assert root.function_list() == []
        assert sum("fcall" in entry["object"] for entry in root.acl_log()) == 1, "it was asked again"
        assert calls(root) == {"functions": 0, "scripts": 3}


def lived_calls(root: redis.Redis, api: RedisLedger) -> dict[str, int]:
    before = calls(root)
    api.submit(small(), max_queued=999, max_queued_per_owner=999)
    after = calls(root)
    return {name: after[name] - before[name] for name in after if after[name] > before[name]}


async def test_a_quota_is_kept_within_a_step(server: EmbeddedServer) -> None:
    quota = Quota(jobs=3)
    with ledger_of(server.url_of("api"), quota) as api, server.client() as root:
        api.scripts.load_functions()
        async with line_of(server.url_of("api"), api) as line:
            asked = (api.submit_on(line, small("alice"), max_queued=99, max_queued_per_owner=99) for _ in range(5))
            replies = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(reply, BaseException) for reply in replies] == [False] * 3 + [True] * 2
        assert root.hget(f"{PREFIX}counts", "flight:alice") == b"3"
