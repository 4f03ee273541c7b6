"""The process of all links, and how the harness tells it what they are to do.

Of `python -m tests.chaos.network.proxy` the first line of input describes the links, and each further one is a command,
in JSON; each is answered by a line.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from tests.chaos.network.links import Link, accept

HOST = "127.0.0.1"


class Proxies:
    """The harness's side. For any threads."""

    def __init__(self, links: Sequence[dict[str, Any]], seed: int, log: Path) -> None:
        """`links`: a name, the ports to `listen` on and to pass on to (`target`), and whether it `fails_calls`."""
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.network.proxy"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        self._lock = threading.Lock()
        self._ask({"links": list(links), "seed": seed})

    @property
    def pid(self) -> int:
        return self._process.pid

    def _ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            print(json.dumps(command), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())

    def do(self, link: str, what: str, **more: object) -> None:
        """`what`: `cut`, `reset`, `half_open`, `refuse` and `accept` connections, or `mode` with a `mode` and a
        `delay_s`."""
        self._ask({"link": link, "do": what, **more})

    def set_call_fault_rate(self, rate: float) -> None:
        """What share of calls never arrives, and as much again gets no answer."""
        self._ask({"do": "rate", "rate": rate})

    def counts(self) -> dict[str, dict[str, int]]:
        """By link: calls that came, and those that never arrived (`before`) or got no answer (`executed`)."""
        counts: dict[str, dict[str, int]] = self._ask({"do": "counts"})
        return counts

    def traffic(self, link: str) -> dict[str, int]:
        """What passed it so far: bytes each way, and HTTP requests by method."""
        traffic: dict[str, int] = self._ask({"do": "traffic", "link": link})
        return traffic

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


class _Links:
    def __init__(self, described: dict[str, Any]) -> None:
        self._by_name = {
            each["name"]: Link(
                each["name"],
                HOST,
                each["target"],
                random.Random(f"{described['seed']} {each['name']}"),
            )
            for each in described["links"]
        }
        self._ports = {each["name"]: each["listen"] for each in described["links"]}
        self._faulty = [self._by_name[each["name"]] for each in described["links"] if each["fails_calls"]]

        self._servers: dict[str, asyncio.Server] = {}

    async def listen(self) -> None:
        for name in self._ports:
            await self._accept(name)

    async def _accept(self, name: str) -> None:
        accepted = partial(accept, self._by_name[name])
        loop = asyncio.get_running_loop()
        self._servers[name] = await loop.create_server(accepted, HOST, self._ports[name], backlog=1024)

    async def obey(self, command: dict[str, Any]) -> Any:
        match command["do"]:
            case "refuse":
                self._servers[command["link"]].close()
                self._by_name[command["link"]].reset()
            case "accept":
                await self._accept(command["link"])
            case "traffic":
                return self._by_name[command["link"]].traffic
            case "counts":
                return {link.name: link.counts for link in self._faulty}
            case "rate":
                for link in self._faulty:
                    link.call_fault_rate = command["rate"]
            case "mode":
                self._by_name[command["link"]].set_mode(command["mode"], command.get("delay_s", 0.0))
            case "cut":
                self._by_name[command["link"]].cut()
            case "reset":
                self._by_name[command["link"]].reset()
            case "half_open":
                self._by_name[command["link"]].half_open()
        return {}


async def serve() -> None:
    """Until its input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    links = _Links(json.loads(await reader.readline()))
    await links.listen()
    print(json.dumps({}), flush=True)
    while line := await reader.readline():
        print(json.dumps(await links.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    uvloop.run(serve())
