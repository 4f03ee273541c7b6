"""One run: cells behind nginx, its control, callers beside faults, and the account of every job and of every answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from tests.chaos import products
from tests.chaos.callers import Told
from tests.chaos.cells.control import Control, run_control
from tests.chaos.cells.driver import Driver
from tests.chaos.cells.faults import Struck, plan
from tests.chaos.cells.stack import CellStack
from tests.chaos.cells.traffic import PATIENT_S, PAUSE_S, Answers, CellCaller, Numbers
from tests.chaos.cells.verdict import by_kind, defects, slowest_s
from tests.chaos.stack import MAX_ATTEMPTS
from tests.chaos.verdict.account import Account, account_for, wait_for_ends
from tests.chaos.verdict.margins import Margins

SHOWN = 20  # lines of each list that a record keeps
HEAVY = 6  # jobs that a cell is given before a fault
HEAVY_FIRST, HEAVY_STEP = products.LONG_SEEDS * 100_000, products.LONG_SEEDS  # numbers of one product


@dataclass(frozen=True, slots=True)
class Asked:
    """`jobs`: at least so many, and more while faults last. `for_s`: no fault begins after so long. `pause_s`: before
    each job of a caller, on average."""

    seed: int
    cells: int
    jobs: int
    faults: int
    only: tuple[str, ...]
    for_s: float
    pause_s: float = PAUSE_S


@dataclass
class Outcome:
    """`accounts` and `told`: by cell."""

    asked: Asked
    control: Control
    told: Mapping[str, Told]
    answers: Answers
    struck: list[Struck]
    margins: Margins
    accounts: dict[str, Account] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        counts = sum((Counter(each.counts) for each in self.accounts.values()), Counter[str]())
        paths = sum((each.paths for each in self.accounts.values()), Counter[str]())
        bad = list(defects(self.answers.noted, self.struck))
        unexpected = [line for each in self.told.values() for line in each.unexpected]
        accounts = {name: [line for each in self.accounts.values() for line in getattr(each, name)] for name in COUNTS}
        found = accounts | {"defects": bad, "unexpected": unexpected}
        figures = by_kind(self.answers.noted, self.struck)
        self.margins.note("answer of a living cell, s", slowest_s(figures), PATIENT_S)
        first = min((each.began_at for each in self.struck), default=0.0)
        return {
            "seed": self.asked.seed,
            "passed": self.control.failed_as_it_must and not any(found.values()),
            "cells": self.asked.cells,
            "accepted": sum(len(each.accepted) for each in self.told.values()),
            "accepted_by_cell": {number: len(each.accepted) for number, each in self.told.items()},
            **{name: counts[name] for name in COUNTS},
            "answers": len(self.answers.noted),
            "defects": len(bad),
            "unexpected_answers": len(unexpected),
            "control": self.control.found,
            "faults": len(self.struck),
            "by_kind": figures,
            "paths": dict(sorted(paths.items())),
            "seconds": self.seconds,
            "margins": self.margins.as_record(),
            "found": {name: lines[:SHOWN] for name, lines in found.items() if lines},
            "log": [
                f"{each.began_at - first:.1f}+{each.ended_at - each.began_at:.1f} {each.kind}: {each.at}"
                for each in sorted(self.struck, key=lambda each: each.began_at)
            ],
        }


COUNTS = tuple(Account().counts)


def run(asked: Asked, directory: Path) -> Outcome:
    """In a directory that is empty. Its logs stay there."""
    began = time.monotonic()
    with CellStack(directory, cells=asked.cells, seed=asked.seed) as stack:
        control = run_control(stack, asked.seed)
        faults_began = time.monotonic()
        outcome = _drive(stack, asked, control)
        faults_ended = time.monotonic()
        for number, cell in stack.cells.items():
            with cell.client() as client:
                unended = wait_for_ends(client, stack.margins, prefix=cell.prefix)
                account = account_for(cell, client, outcome.told[number], control.jobs[number])
            account.stuck += [f"cell {number}: {unended}"] if unended else []
            stack.margins.note("attempts of a job", max(account.attempts, default=0), MAX_ATTEMPTS)
            outcome.accounts[number] = account
    parts = {"control": faults_began - began, "faults": faults_ended - faults_began}
    outcome.seconds = {name: round(each, 1) for name, each in (parts | {"all": time.monotonic() - began}).items()}
    return outcome


def _drive(stack: CellStack, asked: Asked, control: Control) -> Outcome:
    """Callers and readers of each cell, beside the faults, until these are over. Raises what any of them raised."""
    told = {number: Told(margins=stack.margins) for number in stack.cells}
    answers, numbers = Answers(), Numbers(asked.seed, asked.pause_s)
    callers = [
        CellCaller(index, seat, stack.door, told[seat.cell], asked.seed, answers)
        for index, seat in enumerate(stack.seats)
    ]
    readers, givers = (
        {seat.cell: CellCaller(0, seat, stack.door, told[seat.cell], asked.seed, answers) for seat in stack.seats}
        for _ in range(2)
    )
    heavy = count(HEAVY_FIRST, HEAVY_STEP)
    driver = Driver(stack, answers, lambda cell: givers[cell].send_heavy(list(islice(heavy, HEAVY))))
    with ThreadPoolExecutor(len(callers) + len(readers)) as pool:
        running = [pool.submit(caller.run, numbers.number) for caller in callers]
        running += [pool.submit(reader.read_back, numbers.ended) for reader in readers.values()]
        try:
            faults = plan(asked.seed, asked.faults, stack, asked.only)
            driver.run(faults, numbers, asked.jobs, time.monotonic() + asked.for_s)
        finally:
            numbers.ended.set()
    for each in running:
        each.result()
    return Outcome(asked, control, told, answers, driver.struck, stack.margins)
