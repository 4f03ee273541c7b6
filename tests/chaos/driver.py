"""Brings the faults of a plan about, several at a time, beside the callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from tests.chaos.callers import Gate
from tests.chaos.faults.fault import Fault
from tests.chaos.faults.processes import wait_for_work
from tests.chaos.plan import KINDS, resource
from tests.chaos.stack import ChaosStack

AT_ONCE = 3
LEAST_GAP_S = 0.1
TOLD_EVERY = 50  # faults


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that came about. `began_at` and `ended_at`: seconds since 1970. `in_tiles`: in the middle of a product in
    tiles."""

    fault: Fault
    began_at: float
    ended_at: float
    in_tiles: bool = False


@dataclass
class Driver:
    """Over one run. Raises whatever a fault raised, once all have passed."""

    stack: ChaosStack
    faults: Sequence[Fault]
    gate: Gate
    struck: list[Struck] = field(default_factory=list)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)

    def run(self, deadline: float) -> None:
        """In order, each once enough jobs were submitted; none after `deadline` (monotonic)."""
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for index, fault in enumerate(self.faults):
                if not self.gate.wait_for_fault(index, deadline):
                    break
                if index and index % TOLD_EVERY == 0:
                    print(f"fault {index} of {len(self.faults)}", flush=True)
                lock = self._locks.setdefault(resource(fault), threading.Lock())
                lock.acquire()
                while len(running) >= AT_ONCE:
                    done, running = wait(running, return_when="FIRST_COMPLETED")
                    for each in done:
                        each.result()
                running.add(pool.submit(self._strike, fault, lock))
                self.gate.fault_began()
                time.sleep(LEAST_GAP_S)
        for each in running:
            each.result()

    def _strike(self, fault: Fault, lock: threading.Lock) -> None:
        in_tiles = KINDS[fault.kind].of_worker and wait_for_work(self.stack, fault.at)
        began_at = time.time()
        try:
            if KINDS[fault.kind].strike(self.stack, fault):
                self.struck.append(Struck(fault, began_at, time.time(), in_tiles))
        finally:
            lock.release()
