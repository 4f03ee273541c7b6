"""Brings the faults of a plan about, one after the other, beside the callers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.cells.faults import KINDS, NGINX, Fault, Struck
from tests.chaos.cells.stack import Cell, CellStack
from tests.chaos.cells.traffic import Answers, Numbers

WORK_TIMEOUT_S = 1.0


@dataclass
class Driver:
    """Over one run. `give_work`: submits jobs that take a moment to the cell of that number, for a fault to meet."""

    stack: CellStack
    answers: Answers
    give_work: Callable[[str], None]
    struck: list[Struck] = field(default_factory=list)

    def run(self, faults: Sequence[Fault], numbers: Numbers, jobs: int, deadline: float) -> None:
        """With a share of the jobs before, between and after them; none is begun after the deadline (monotonic)."""
        share = jobs // (len(faults) + 1)
        for fault in faults:
            if not numbers.wait_for_more(share, deadline):
                break
            self._strike(fault)
        numbers.wait_for_more(share, deadline)

    def _strike(self, fault: Fault) -> None:
        """From its beginning until all is as before."""
        kind, stack = KINDS[fault.kind], self.stack
        at_risk = 0 if kind.of_nginx else self._work_of(stack.cells[fault.at])
        began_at = time.monotonic()
        if kind.hangs:
            self.answers.hanging.add(fault.at)
        kind.begin(stack, fault.at)
        struck_at = time.monotonic()
        if fault.meanwhile:
            time.sleep(fault.seconds / 2)
            self._strike(Fault(fault.meanwhile, NGINX, min(KINDS[fault.meanwhile].seconds)))
        time.sleep(fault.seconds / (2 if fault.meanwhile else 1))
        mended_at = time.monotonic()
        kind.end(stack, fault.at)
        self.answers.hanging.discard(fault.at)
        if not kind.of_nginx:
            stack.cells[fault.at].wait_until_ready()
        self.struck.append(Struck(fault.kind, fault.at, began_at, struck_at, mended_at, time.monotonic(), at_risk))

    def _work_of(self, cell: Cell) -> int:
        """How many jobs it has, one of them at work."""
        self.give_work(cell.number)
        deadline = time.monotonic() + WORK_TIMEOUT_S
        with cell.client() as client:
            while time.monotonic() < deadline:
                running: Any = client.zcard(f"{cell.prefix}leases")
                if running:
                    break
                time.sleep(0.002)
        return cell.jobs_under_way()
