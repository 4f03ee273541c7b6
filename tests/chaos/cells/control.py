"""The control: what a run of cells must find, before it is believed that there is nothing to find.

A product that was swapped for another's must be counted as wrong in its cell, all jobs of a cell whose disk was lost as
lost, and a refusal that no fault of that cell explains as a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tests.chaos.callers import Told
from tests.chaos.cells.stack import CellStack
from tests.chaos.cells.traffic import Answers, CellCaller, Watched
from tests.chaos.cells.verdict import defects
from tests.chaos.control import FIRST, swap_products
from tests.chaos.network.wire import request
from tests.chaos.verdict.account import account_for, wait_for_ends

JOBS = 12  # of each cell


@dataclass(frozen=True, slots=True)
class Control:
    """`jobs`: those that it left behind, by cell."""

    found: dict[str, int]
    jobs: dict[str, tuple[str, ...]]

    @property
    def failed_as_it_must(self) -> bool:
        return all(self.found.values())


def run_control(stack: CellStack, seed: int) -> Control:
    """The first cell's disk is lost, and a product of the last one is swapped."""
    lost, swapped = stack.cells[min(stack.cells)], stack.cells[max(stack.cells)]
    told, answers = {number: _submitted(stack, number, seed) for number in stack.cells}, Answers()
    for cell in stack.cells.values():
        with cell.client() as client:
            wait_for_ends(client, stack.margins, prefix=cell.prefix)
    with swapped.client() as client:
        done = [each.job for each in told[swapped.number].accepted.values() if each.path == "inline"]
        swap_products(client, done[0], done[1], swapped.prefix)
        wrong = len(account_for(swapped, client, told[swapped.number]).wrong)
    lost.redis.kill()
    wire = Watched(stack.door, lost.number, answers)
    wire.ask(request("GET", "/v1/jobs", stack.seats[0].key, lost.headers))
    wire.close()
    lost.lose_disk()
    lost.redis.start()
    lost.wait_until_ready()
    with lost.client() as client:
        missing = len(account_for(lost, client, told[lost.number]).lost)
    found = {
        "lost with a cell's disk": missing,
        "wrong by a swapped product": wrong,
        "refusals without a fault": sum(1 for _ in defects(answers.noted, [])),
    }
    return Control(found, {number: tuple(each.job for each in one.accepted.values()) for number, one in told.items()})


def _submitted(stack: CellStack, number: str, seed: int) -> Told:
    told = Told(margins=stack.margins)
    seat = next(each for each in stack.seats if each.cell == number)
    CellCaller(0, seat, stack.door, told, seed, Answers()).run(partial(next, iter(range(FIRST, FIRST + JOBS)), None))
    return told
