"""Two ledgers that are led through the same steps: one on which jobs as most are go straight on through the scripts
(`…_usual` and the like in lua/submit, claim and succeed), and one on which no job does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from jobs.ledger import redis as ledger_module
from jobs.ledger.claims.claimed import claimed_job
from jobs.ledger.interface import Claimed, Success
from jobs.ledger.limits import Limits
from jobs.ledger.redis import LUA_DIR, RedisLedger
from jobs.matrices.index import Bounds, Claim, MatrixIndex
from jobs.models import ANONYMOUS, MatmulRequest, NewJob
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from jobs.requests.job_matrices import JobMatrices, StoredOperand
from jobs.requests.operands import OperandRef
from tests.support.ledger.ledgers import CLOCK_KEY, CLOCK_LUA, Clock, new_job, outcome, redis_ledger, settings_for

CALLS = {
    "submit": ("(is_one and record_one or record_several)(ARGV)", "quick_replies"),
    "claim": ("attempt == '1' and claim_usual(id, limit, unpack(ARGV, 4, 10))", "usual"),
    "succeed": ("(#ARGV == 10 and succeed_one or succeed_several)(ARGV, at)", "ended"),
}
COUNTED = "counted:"
SHAPE = (8, 8)  # of operands that are stored for a job
ALL_BYTES, OWNER_BYTES = 180_000, 120_000  # of matrices
UPLOAD_S = 60.0  # how long matrices that were uploaded are kept


class Sides:
    """The same steps on both ledgers: with and without."""

    def __init__(self, usual: RedisLedger, plain: RedisLedger, clocks: list[Clock], client: redis.Redis) -> None:
        self._ledgers, self.clocks, self._client = (usual, plain), clocks, client

    def run(self, step: Callable[[RedisLedger], Any]) -> Any:
        usual, plain = (_as_text(step(ledger)) for ledger in self._ledgers)
        assert usual == plain
        kept = [self._kept(clock.prefix) for clock in self.clocks]
        differing = [name for name in {*kept[0], *kept[1]} if kept[0].get(name) != kept[1].get(name)]
        assert [(name, *(each.get(name) for each in kept)) for name in differing] == []
        return usual

    def _kept(self, prefix: str) -> dict[str, Any]:
        found: Any = self._client.keys(f"{prefix}*")
        names = [key.decode().removeprefix(prefix) for key in found]
        keys = [f"{prefix}{name}" for name in names if not name.startswith((COUNTED, CLOCK_KEY, "libraries"))]
        with self._client.pipeline(transaction=False) as types, self._client.pipeline(transaction=False) as values:
            for key in keys:
                types.type(key)
            for key, kind in zip(keys, types.execute(), strict=True):
                _ask_value(values, key, kind)
            read = zip(keys, values.execute(), strict=True)
        return {"".join(key.split(prefix)): _without_ids(value) for key, value in read}

    def pause(self, paused: str) -> None:
        for clock in self.clocks:
            self._client.hset(f"{clock.prefix}counts", "paused", paused)

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def went_straight_on(self) -> dict[str, int]:
        return {name: int(self._client.get(f"{self.clocks[0].prefix}{COUNTED}{name}") or 0) for name in CALLS}


@contextmanager
def both_ways(server: EmbeddedServer, prefix: str, directory: Path, patch: pytest.MonkeyPatch) -> Iterator[Sides]:
    """`directory`: for their scripts."""
    with ExitStack() as exits:
        ledgers = [
            exits.enter_context(_ledger(server, f"{prefix}{side}:", _lua(directory / side, side), patch))
            for side in ("usual", "plain")
        ]
        client = exits.enter_context(server.client())
        clocks = [Clock(client=client, prefix=f"{prefix}{side}:") for side in ("usual", "plain")]
        yield Sides(ledgers[0], ledgers[1], clocks, client)


def _lua(directory: Path, side: str) -> Path:
    """The scripts: counting what goes straight on, or with nothing that does."""
    shutil.copytree(LUA_DIR, directory)
    for name, (called, taken) in CALLS.items():
        path = directory / f"{name}.lua"
        text = path.read_text()
        assert text.count(f" = {called}\n  if {taken} then\n") == 1
        count = f"\n    redis.call('INCR', prefix .. '{COUNTED}{name}')"
        called, to = (f"if {taken} then", f"if {taken} then{count}") if side == "usual" else (f" = {called}", " = nil")
        path.write_text(text.replace(called, to))
    return directory


@contextmanager
def _ledger(server: EmbeddedServer, prefix: str, lua: Path, patch: pytest.MonkeyPatch) -> Iterator[RedisLedger]:
    patch.setattr(ledger_module, "LUA_DIR", lua)
    with connect(settings_for(server, prefix)) as client:
        bounds, ended = Bounds(ALL_BYTES, OWNER_BYTES), Limits(30, 20)
        yield redis_ledger(client, prefix, bounds=bounds, clock=CLOCK_LUA, max_ended=ended)


def _ask_value(client: Any, key: str, kind: bytes) -> None:
    """Adds the question to the pipeline."""
    match kind:
        case b"hash":
            client.hgetall(key)
        case b"zset":
            client.zrange(key, 0, -1, withscores=True)
        case b"list":
            client.lrange(key, 0, -1)
        case b"stream":
            client.xrange(key)
        case _:
            client.get(key)


def _without_ids(value: Any) -> Any:
    """Entries of a stream have the time in their ids, so their fields alone are compared."""
    is_stream = isinstance(value, list) and value and isinstance(value[0], tuple) and isinstance(value[0][1], dict)
    return [fields for _, fields in value] if is_stream else value


def _as_text(reply: Any) -> Any:
    """Numbers may be written either way."""
    if isinstance(reply, list) and reply[:1] == [b"bound"]:  # fields of a hash have no order
        return [b"bound", dict(zip(reply[1][::2], reply[1][1::2], strict=True)), reply[2]]
    if isinstance(reply, list):
        return [_as_text(each) for each in reply]
    return str(reply).encode() if isinstance(reply, int) and not isinstance(reply, bool) else reply


def stored_job(
    *ids: str, owner: str = ANONYMOUS, room_bytes: int = 0, is_turned: bool = False, but: Collection[str] = ()
) -> NewJob:
    """Whose operands A and B are stored for it, `but` for those. `is_turned`: B came before A."""
    named = {each: StoredOperand(id=each, dtype="float32", shape=SHAPE) for each in ids if each not in but}
    a, b = (
        OperandRef(source="inline" if each in named else "matrix", matrix=each, dtype="float32", shape=SHAPE)
        for each in ids
    )
    stored = tuple(named.values())[:: -1 if is_turned else 1]
    matrices = JobMatrices(stored=stored, ttl_s=60, used_ttl_s=90, room_bytes=room_bytes)
    job = new_job(owner, matrices=matrices, batch="small")
    return job.model_copy(update={"request": MatmulRequest(a=a, b=b, accuracy="fp32")})


def referring_job(
    a: str, b: str, *, owner: str = ANONYMOUS, product_bytes: int = 0, room_bytes: int = 0, batch: str = "beside"
) -> NewJob:
    """Whose operands are matrices that were uploaded. `product_bytes`: in its record."""
    operands = (OperandRef(source="matrix", matrix=each, dtype="float32", shape=SHAPE) for each in (a, b))
    matrices = JobMatrices(product_bytes=product_bytes, room_bytes=room_bytes, ttl_s=60, used_ttl_s=90)
    job = new_job(owner, matrices=matrices, batch=batch)
    return job.model_copy(update={"request": MatmulRequest(**dict(zip("ab", operands, strict=True)), accuracy="fp32")})


def books_of(ledger: RedisLedger, chunk_bytes: int = 0) -> MatrixIndex:
    bounds = Bounds(ALL_BYTES, OWNER_BYTES)
    return MatrixIndex(ledger._client, ledger._prefix, bounds, chunk_bytes=chunk_bytes, clock=CLOCK_LUA)


def uploaded(ids: Collection[str], owner: str, ledger: RedisLedger) -> None:
    for each in ids:
        books_of(ledger).claim(Claim(each, each, "float32", SHAPE, owner, UPLOAD_S))


def submitted(job: NewJob, ledger: RedisLedger) -> Any:
    return submitted_together([job], ledger)


def submitted_together(jobs: Collection[NewJob], ledger: RedisLedger) -> Any:
    """In one step, as an event loop does."""
    each = [ledger._submission(job, Limits(99, 99), None) for job in jobs]
    return ledger._run("submit", *(part for one in each for part in one[:-2]), *each[0][-2:])


def claimed(job: NewJob, most: int, ledger: RedisLedger, beside: str = "beside", light: int = 0) -> list[Claimed]:
    """With so many at most; `beside`: the batch of jobs that may be under way beside one another, two of them and so
    many `light` ones."""
    about = "w", 6_000_000, most, 2, beside, light, SHAPE[0], "", 0
    return [claimed_job(each, "w") for each in ledger._run("claim", job.id, 1, *about, *ledger._messages)]


def stored_success(job_id: str, attempt: int = 1, owner: str = ANONYMOUS) -> Success:
    return Success(job_id, attempt, outcome(), claim=(owner, 60))


def ended(ends: list[Success], ledger: RedisLedger) -> Any:
    return ledger._run("succeed", *ledger._about(ends))
