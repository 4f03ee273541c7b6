"""What goes wrong with cells, with nginx, and between them: kinds of faults, and a plan of them drawn from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tests.chaos.cells.stack import Cell, CellStack

RESETS, RESET_EVERY_S = 100, 0.02
NGINX = "nginx"  # strikes every cell
Act = Callable[[CellStack, str], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """`begin` and `end` it, at a cell or nginx; in between it lasts for some `seconds`. `times`: how many a full deck
    has. `excuses`: what may become of a connection to what it strikes. `silences`: whether nginx may find no API there;
    `is_death`: whether it must find none, from the one to the other. `hangs`: whether requests wait."""

    begin: Act
    end: Act
    seconds: tuple[float, float]
    times: int = 1
    excuses: frozenset[str] = frozenset()
    silences: bool = True
    is_death: bool = False
    hangs: bool = False
    of_link: bool = False
    of_nginx: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """`meanwhile`: a kind of nginx's, in the middle of it."""

    kind: str
    at: str
    seconds: float
    meanwhile: str = ""


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that came about: it is in force from `struck_at`, mended from `mended_at` on, and past at `ended_at`.
    `at_risk`: jobs that waited or ran in the cell when it began."""

    kind: str
    at: str
    began_at: float
    struck_at: float
    mended_at: float
    ended_at: float
    at_risk: int = 0


def _cell(act: Callable[[Cell], object]) -> Act:
    return lambda stack, at: act(stack.cells[at])


def _nothing(stack: CellStack, at: str) -> None:
    """It passes by itself."""


def _link(what: str, **more: object) -> Act:
    return lambda stack, at: stack.link.do(at, what, **more)


def _reset_often(stack: CellStack, at: str) -> None:
    """So that some resets meet a request."""
    for _ in range(RESETS):
        stack.link.do(at, "reset")
        time.sleep(RESET_EVERY_S)


def _start_api(stack: CellStack, at: str) -> None:
    stack.cells[at].parts["api"].start()


CUT = frozenset({"cut short"})  # a reply that had begun: nginx can take nothing back
LATE = CUT | {"timed out"}
GONE = CUT | {"closed"}
KINDS: dict[str, Kind] = {
    "cell killed": Kind(_cell(Cell.kill), _cell(Cell.start), (2.0, 5.0), 3, CUT, is_death=True),
    "cell stopped": Kind(_cell(Cell.stop), _cell(Cell.resume), (4.0, 8.0), 2, LATE, hangs=True),
    "Valkey killed": Kind(
        _cell(lambda cell: cell.redis.kill()), _cell(lambda cell: cell.redis.start()), (0.5, 3.0), 2, silences=False
    ),
    "API killed": Kind(_cell(lambda cell: cell.parts["api"].kill()), _start_api, (0.5, 3.0), 1, CUT, is_death=True),
    "link reset": Kind(_reset_often, _nothing, (0.0, 0.2), 1, CUT, of_link=True),
    "link black hole": Kind(
        _link("mode", mode="hole"), _link("mode", mode="plain"), (3.0, 6.0), 1, LATE, hangs=True, of_link=True
    ),
    "nginx killed": Kind(
        lambda stack, _: stack.nginx.kill(),
        lambda stack, _: stack.nginx.start(),
        (0.2, 1.0),
        1,
        GONE,
        silences=False,
        of_nginx=True,
    ),
    "nginx reloaded": Kind(
        lambda stack, _: stack.nginx.reload(), _nothing, (0.5, 1.0), 1, GONE, silences=False, of_nginx=True
    ),
}


def plan(seed: int, faults: int, stack: CellStack, only: Collection[str] = ()) -> Sequence[Fault]:
    """Dealt from decks of all kinds, in a random order. nginx is restarted or reloaded in the middle of every second
    death of a cell."""
    rng = random.Random(f"{seed} plan of cells")
    deck = [name for name, kind in KINDS.items() for _ in range(kind.times) if name in (only or KINDS)]
    names: list[str] = []
    while len(names) < faults:
        names += rng.sample(deck, len(deck))
    dealt, deaths = [], 0
    for name in names[:faults]:
        kind = KINDS[name]
        at = NGINX if kind.of_nginx else stack.linked if kind.of_link else rng.choice(list(stack.cells))
        deaths += name == "cell killed"
        meanwhile = ("nginx killed", "nginx reloaded")[deaths // 2 % 2] if name == "cell killed" and deaths % 2 else ""
        dealt.append(Fault(name, at, round(rng.uniform(*kind.seconds), 2), meanwhile))
    return dealt
