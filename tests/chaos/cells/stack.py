"""Several cells behind nginx: each a Valkey, an API and a CPU worker of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from jobs.ledger.redis import RedisLedger
from jobs.queue import make_ledger
from jobs.redis.embedded import EmbeddedServer, free_port
from jobs.settings import Settings
from service.cells.nginx import nginx_configuration
from service.cells.plan import Cell as Listed
from service.cells.plan import CellPlan
from service.keys.line import make_key
from service.keys.role import Role
from tests.chaos.network.proxy import HOST, Proxies
from tests.chaos.network.wire import Wire, request
from tests.chaos.parts import Part
from tests.chaos.stack import SETTINGS, START_TIMEOUT_S
from tests.chaos.verdict.account import unended
from tests.chaos.verdict.margins import Margins
from tools.nginx import Nginx

NUMBERS = ("0c0", "0c1", "0c2")  # of cells; nginx reaches the last one's API by a link
OF_EACH_SORT = 2  # callers of a cell: by their keys, and by their affinities
KEYS = 64  # made; each cell is sure to have its share
PARTS = ("api", "worker")
# Each change is written before its answer. Under `everysec` changes are held back in memory while the disk is busy
# with a sync, and a kill loses them: the service does not promise more, and a run would depend on the machine's disk.
VALKEY = ("appendfsync no", "loglevel warning")


@dataclass(frozen=True, slots=True)
class Seat:
    """Who calls a cell: nginx hashes the key to it, or the affinity in the headers."""

    cell: str
    key: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Cell:
    """All that one cell is. `door`: nginx's port; `keys` are known to every cell, with the operator's."""

    def __init__(self, number: str, directory: Path, door: int, margins: Margins, link: int | None) -> None:
        self.number, self.directory, self.margins = number, directory, margins
        self.prefix = f"m:{{{number}}}:"
        self.headers = {"X-Matmul-Cell": number}
        self.doors = (door,)
        self.port = free_port()
        self.address = f"{HOST}:{self.port if link is None else link}"
        self.redis = EmbeddedServer(directory / "redis", options=VALKEY, key_prefix=self.prefix)
        self.keys: tuple[str, ...] = ()
        self.operator = ""
        self.parts: dict[str, Part] = {}

    def admit(self, keys: tuple[str, ...], operator: str, auth: Mapping[str, str]) -> None:
        """Before the first start."""
        self.keys, self.operator = keys, operator
        own = SETTINGS | dict(auth) | {"cell": self.number, "key_prefix": self.prefix, "port": str(self.port)}
        own |= {"redis_url": self.redis.url, "store_dir": str(self.directory / "matrices")}
        own |= {"kernel_cache_dir": str(self.directory / "kernels")}
        own["redis_timeout_s"] = "5"  # where the machine is busy, no cell refuses what its Valkey answers late
        environment = {f"MATMUL_{name.upper()}": value for name, value in own.items()}
        for name, command in zip(PARTS, (("service",), ("worker", "--device", "cpu")), strict=True):
            log = self.directory.with_name(f"{self.number} {name}.log")
            self.parts[name] = Part(f"{name} of {self.number}", command, environment, log)

    def start(self) -> None:
        self.redis.start()
        for part in self.parts.values():
            part.start()

    def kill(self) -> None:
        """SIGKILL to all of it, before any of it is waited for: as the loss of its hosts."""
        for part in self.parts.values():
            if part.is_running:
                part.signal_group(signal.SIGKILL)
        self.redis.kill()
        for part in self.parts.values():
            part.kill()

    def lose_disk(self) -> None:
        """While its Valkey is down: what that kept is gone."""
        shutil.rmtree(self.directory / "redis" / "appendonlydir")

    def stop(self) -> None:
        """SIGSTOP to all of it: it refuses nothing, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        for part in self.parts.values():
            part.signal_group(which)
        os.kill(self.redis.pid, which)

    def wait_until_ready(self) -> None:
        """Returns once its API answers and sees its worker. Raises TimeoutError."""
        began = time.monotonic()
        while time.monotonic() < began + START_TIMEOUT_S:
            with contextlib.suppress(OSError, ValueError):
                if any(each["id"].endswith(f"/{self.parts['worker'].pid}") for each in self._devices()):
                    self.margins.note("start of a cell, s", time.monotonic() - began, START_TIMEOUT_S)
                    return
            time.sleep(0.05)
        raise TimeoutError(f"cell {self.number} was not ready in {START_TIMEOUT_S:.0f} s; see {self.directory}")

    def _devices(self) -> Any:
        """Past nginx."""
        asked = urllib.request.Request(
            f"http://{HOST}:{self.port}/v1/devices", headers={"Authorization": f"Bearer {self.operator}"}
        )
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return json.load(reply)["devices"]

    def client(self) -> redis.Redis:
        return self.redis.client(timeout_s=30.0)

    def ledger(self, client: redis.Redis) -> RedisLedger:
        return make_ledger(Settings.model_validate({"key_prefix": self.prefix}), client)

    def jobs_under_way(self) -> int:
        """Those that wait or run."""
        with self.client() as client:
            return sum(unended(client, self.prefix)[:2])


class CellStack:
    """Starts on entry and leaves no process behind. `seats`: of the callers."""

    def __init__(self, directory: Path, *, cells: int, seed: int) -> None:
        self.directory, self._seed = directory, seed
        self.margins = Margins()
        self.door, self._link_port = free_port(), free_port()
        numbers = NUMBERS[:cells]
        self.linked = numbers[-1]
        self.cells = {number: self._cell(number) for number in numbers}
        listed = tuple(Listed(cell=number, servers=(cell.address,)) for number, cell in self.cells.items())
        (directory / "nginx").mkdir()
        plan = CellPlan(listen=f"{HOST}:{self.door}", cells=listed)
        self.nginx = Nginx(nginx_configuration(plan), self.door, directory / "nginx", workers=2)
        self.seats: list[Seat] = []
        self._links: Proxies | None = None

    def _cell(self, number: str) -> Cell:
        own = self.directory / number
        own.mkdir()
        return Cell(number, own, self.door, self.margins, self._link_port if number == self.linked else None)

    @property
    def link(self) -> Proxies:
        """Its one link has the linked cell's number as its name."""
        assert self._links is not None
        return self._links

    def __enter__(self) -> Self:
        try:
            self.nginx.start()
            target = self.cells[self.linked].port
            link = {"name": self.linked, "listen": self._link_port, "target": target, "fails_calls": False}
            self._links = Proxies([link], self._seed, self.directory / "proxy.log")
            self._deal_seats()
            for cell in self.cells.values():
                cell.start()
            for cell in self.cells.values():
                cell.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def _deal_seats(self) -> None:
        """Keys and affinities such that each cell has its callers. No cell runs yet: nginx alone says where a request
        would go."""
        pepper, wire = secrets.token_hex(16), Wire(self.door)
        made = {each.key: each for each in (make_key(f"caller {i}", pepper.encode()) for i in range(KEYS))}
        by_key = [Seat(_cell_of(wire, key, {}), key) for key in made]
        affinities = [{"X-Matmul-Affinity": f"work {i}"} for i in range(KEYS)]
        by_affinity = [
            Seat(_cell_of(wire, key, affinity), key, affinity) for key, affinity in zip(made, affinities, strict=True)
        ]
        wire.close()
        for dealt in (by_key, by_affinity):
            for number in self.cells:
                self.seats += [seat for seat in dealt if seat.cell == number][:OF_EACH_SORT]
        operator = make_key("operator", pepper.encode(), role=Role.OPERATOR)
        lines = " ".join(each.line for each in (*made.values(), operator))
        auth = {"auth": "on", "api_keys": lines, "api_key_pepper": pepper}
        keys = tuple(dict.fromkeys(seat.key for seat in self.seats))
        for cell in self.cells.values():
            cell.admit(keys, operator.key, auth)

    def stop(self) -> None:
        for cell in self.cells.values():
            cell.kill()
        if self._links is not None:
            self._links.stop()
        self.nginx.kill()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def _cell_of(wire: Wire, key: str, headers: Mapping[str, str]) -> str:
    return wire.ask(request("GET", "/v1/limits", key, headers)).header("x-matmul-cell")
