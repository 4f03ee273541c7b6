"""The faults of a run: which kinds there are, and a plan of them drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.disks import NAMESPACE
from tests.chaos.faults import disks, links, objects, processes, server
from tests.chaos.faults.fault import Fault, Strike
from tests.chaos.layout import APIS, OBJECTS, WORKERS, Layout, http_link, object_link
from tests.support.clocks.own_clock import compiler

INNER = (*APIS, *WORKERS)
ALL_LINKS = (*INNER, *map(http_link, APIS))
OF_OBJECTS = (OBJECTS, *map(object_link, range(2)))  # for all hosts, or for one


@dataclass(frozen=True, slots=True)
class Kind:
    """`places`: what it may strike. `busies`: what else is to be let alone meanwhile; its place where none is named.
    `times`: how many of it a full deck has."""

    strike: Strike
    places: tuple[str, ...]
    seconds: tuple[float, float] = (0.0, 0.0)
    times: int = 1
    busies: str = ""
    needs: str = ""  # what the machine must have, `disks` or `compiler`; or the run, `objects`
    of_worker: bool = False  # whether it takes a job from its worker


KINDS: dict[str, Kind] = {
    "worker killed": Kind(processes.kill, WORKERS, (0.0, 0.5), 3, of_worker=True),
    "worker stopped": Kind(processes.stop, WORKERS, (0.5, 9.0), of_worker=True),
    "worker restarted": Kind(processes.restart, WORKERS),
    "child killed": Kind(processes.kill_child, WORKERS, times=4, of_worker=True),
    "child stopped": Kind(processes.stop_child, WORKERS, (0.5, 9.0), of_worker=True),
    "API killed": Kind(processes.kill, APIS, (0.0, 0.3), 3),
    "API stopped": Kind(processes.stop, APIS, (0.3, 3.0)),
    "API restarted": Kind(processes.restart, APIS),
    "Valkey killed": Kind(processes.kill_redis, ("Valkey",), times=2),
    "Valkey stopped": Kind(processes.stop_redis, ("Valkey",), (0.3, 2.0), 2),
    "clock jumped": Kind(processes.jump_clock, INNER, (1.0, 2.0), needs="compiler"),
    "link cut": Kind(links.cut, ALL_LINKS, times=3),
    "link reset": Kind(links.reset, ALL_LINKS, times=3),
    "link half open": Kind(links.half_open, ALL_LINKS),
    "link slow": Kind(links.slow, ALL_LINKS, (0.5, 2.0), busies="link"),
    "link black hole": Kind(links.hole, ALL_LINKS, (0.5, 3.0), 2, busies="link"),
    "link trickles": Kind(links.trickle, ALL_LINKS, (0.5, 1.5), busies="link"),
    "client vanished": Kind(links.vanish, APIS, busies="link"),
    "client never read": Kind(links.never_read, APIS, busies="link"),
    "client never finished": Kind(links.never_finish, APIS, busies="link"),
    "Redis full": Kind(server.full, ("Valkey",), (0.5, 3.0)),
    "READONLY": Kind(server.read_only, ("Valkey",), (0.3, 2.0)),
    "NOREPLICAS": Kind(server.no_replicas, ("Valkey",), (0.3, 2.0)),
    "BUSY": Kind(server.busy, ("Valkey",), (0.3, 2.0)),
    "maxclients": Kind(server.max_clients, ("Valkey",), (0.3, 2.0)),
    "changed password": Kind(server.changed_password, ("Valkey",), (0.3, 2.0)),
    "AOF disk full": Kind(disks.full_append_file, ("Valkey",), (0.5, 3.0), needs="disks"),
    "AOF disk full, then killed": Kind(disks.full_append_file_and_killed, ("Valkey",), (0.3, 2.0), needs="disks"),
    "store full": Kind(disks.full_store, ("store",), (0.5, 3.0), needs="disks"),
    "store read-only": Kind(disks.read_only_store, ("store",), (0.5, 3.0), needs="disks"),
    "store gone": Kind(disks.store_gone, ("store",), (0.5, 3.0), needs="disks"),
    "object store cut": Kind(objects.cut, OF_OBJECTS, (1.0, 10.0), 4, needs=OBJECTS),
    "object store cut for long": Kind(objects.cut, (OBJECTS,), (30.0, 30.0), needs=OBJECTS),
    "object store reset": Kind(objects.reset, OF_OBJECTS, times=3, needs=OBJECTS),
    "object store slow": Kind(objects.slow, OF_OBJECTS, (0.5, 3.0), needs=OBJECTS),
    "object store black hole": Kind(objects.hole, OF_OBJECTS, (1.0, 8.0), 2, needs=OBJECTS),
    "object store trickles": Kind(objects.trickle, OF_OBJECTS, (0.5, 3.0), needs=OBJECTS),
    "object store killed": Kind(objects.kill, (OBJECTS,), (0.0, 2.0), 3, needs=OBJECTS),
    "object store stopped": Kind(objects.stop, (OBJECTS,), (0.5, 8.0), needs=OBJECTS),
}


def kinds(layout: Layout) -> dict[str, Kind]:
    """Those that there are in that layout."""
    return {name: kind for name, kind in KINDS.items() if kind.needs != OBJECTS or layout.store == "s3"}


def not_run() -> dict[str, str]:
    """Kinds that this machine cannot bring about, each with the reason."""
    lacking = {
        "disks": "" if NAMESPACE in os.environ else "it takes root and mounts of our own",
        "compiler": "" if compiler() else "there is no g++",
    }
    return {name: reason for name, kind in KINDS.items() if (reason := lacking.get(kind.needs, ""))}


def plan(
    seed: int, faults: int, layout: Layout, without: Collection[str] = (), other: Path | None = None
) -> Sequence[Fault]:
    """Dealt from decks of all kinds, in a random order: each comes before any comes more often than it is in a deck.
    Raises ValueError where no kind is left."""
    rng = random.Random(f"{seed} plan")
    left_out = {*without, *not_run()}
    deck = [name for name, kind in kinds(layout).items() for _ in range(kind.times) if name not in left_out]
    if faults and not deck:
        raise ValueError("no kind of fault that was asked for can be brought about in this run")
    names: list[str] = []
    while len(names) < faults:
        names += rng.sample(deck, len(deck))
    return [
        Fault(name, rng.choice(_places(name, layout)), round(rng.uniform(*KINDS[name].seconds), 2), number, other)
        for number, name in enumerate(names[:faults])
    ]


def _places(name: str, layout: Layout) -> Sequence[str]:
    return layout.struck_workers if KINDS[name].of_worker else KINDS[name].places


def resource(fault: Fault) -> str:
    """What one fault at a time has for itself."""
    if fault.at in OF_OBJECTS:
        return OBJECTS
    busies = KINDS[fault.kind].busies
    return f"{busies} {fault.at}" if busies else fault.at
