"""What is launched ahead of a product's check, and who has the device's cores, without a GPU.

`python -m tests.support.played.ahead` prints what happened as JSON. CuPy is replaced, so this is for a process of its
own.
"""

from __future__ import annotations

import json
from threading import Thread
from typing import Any, ClassVar
from unittest.mock import MagicMock

import numpy as np

from kernels.model.numerics import Problem
from tests.support.played.driver import install
from worker.check.rounding import rounding_of
from worker.check.verify import group_width

PROBLEM = Problem(700, 768, 1024, "float32")


def cores() -> list[str]:
    """Two threads, one after the other: the second is told to wait on its stream, and does not wait itself."""
    import cupy

    from worker.cuda.gpu.cores import DeviceCores

    happened: list[str] = []
    names = iter(["first", "second", "third"])

    def stream() -> Any:
        name = next(names)
        event = MagicMock(synchronize=lambda: happened.append(f"the host waits for {name}"))
        event.name = name
        made = MagicMock(record=lambda: event)
        made.wait_event = lambda until: happened.append(f"{name} waits on its stream for {until.name}")
        return made

    def work(device: DeviceCores, *, idle: bool) -> None:
        cupy.cuda.get_current_stream.return_value = stream()
        with device.request() as request:
            (request.acquire if idle else request.acquire_in_order)()
            if not idle:
                request.acquire_in_order()
            request.release()
            happened.append("given up")

    device = DeviceCores()
    for idle in (False, False, True):
        thread = Thread(target=work, args=(device,), kwargs={"idle": idle})
        thread.start()
        thread.join()
    return happened


def idle_cores() -> list[str]:
    """Of one who has waited for all that he put on a stream: the next waits for nothing."""
    import cupy

    from worker.cuda.gpu.cores import DeviceCores

    happened: list[str] = []
    stream = MagicMock(wait_event=lambda _: happened.append("waits on its stream"))
    stream.record.return_value.synchronize = lambda: happened.append("the host waits")
    cupy.cuda.get_current_stream.return_value = stream
    device = DeviceCores()

    def work(*, idle: bool) -> None:
        with device.request() as request:
            (request.acquire if idle else request.acquire_in_order)()
            request.release_idle()
            request.release_idle()

    for idle in (False, True, False):
        thread = Thread(target=work, kwargs={"idle": idle})
        thread.start()
        thread.join()
    return happened


def failing_cores() -> bool:
    """Whether others may go on after a fault of the device in the moment of giving up."""
    import cupy

    from worker.cuda.gpu.cores import DeviceCores

    device = DeviceCores()
    cupy.cuda.get_current_stream.return_value = MagicMock(record=MagicMock(side_effect=ValueError))
    try:
        with device.request() as request:
            request.acquire_in_order()
    except ValueError:
        pass
    free: list[bool] = []
    thread = Thread(target=lambda: free.append(device.lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return free[0]


class Sketch:
    """In the place of `SketchOnDevice`."""

    made: ClassVar[list[Sketch]] = []
    digests = None

    def __init__(self, matrices: Any, width: int, digested: Any = None, excluded: Any = None, *__: Any) -> None:
        self.digested, self.width, self.excluded, self.seeds = digested, width, excluded is not None, list[int]()
        self.done = "done"
        self.made.append(self)

    def launch(self, asked: Any) -> None:
        self.seeds.append(asked.seed)

    def worst(self) -> float:
        return 0.5


def sketches() -> dict[str, Any]:
    """How many are launched for a check, by what is asked for."""
    from worker.cuda.check import device_product
    from worker.cuda.check.matrices import CheckedMatrices

    setattr(device_product, "SketchOnDevice", Sketch)  # noqa: B010  # a name that it has imported
    rng, rounding = np.random.default_rng(1), rounding_of(PROBLEM, "fp32")
    width = group_width(PROBLEM.n, PROBLEM.k)

    def launched(ask: Any, accuracy: Any = "fp32", problem: Problem = PROBLEM, *, ahead: bool = True) -> list[int]:
        Sketch.made.clear()
        shapes = (1, problem.m, problem.k), (1, problem.k, problem.n), (1, problem.m, problem.n)
        three: Any = CheckedMatrices._make(MagicMock(shape=shape, dtype=problem.product_dtype) for shape in shapes)
        product = device_product.DeviceProduct(three, MagicMock())
        product.prepare()
        if ahead:
            assert product.launch_ahead(problem, accuracy) == "done"
            assert product.launch_ahead(problem, accuracy) is None, "nothing is prepared any more"
        ask(product)
        seeds = [seed for each in Sketch.made for seed in each.seeds]
        assert len(set(seeds)) == len(seeds) and all(seeds), "each has a seed of its own"
        return [len(each.seeds) for each in Sketch.made]

    def sketched(product: Any, excluded: Any = None) -> Any:
        return product.sketched(rounding, width=width, excluded=excluded, rng=rng)

    def twice(product: Any) -> None:
        sketched(product)
        sketched(product)

    mask = np.zeros((1, PROBLEM.n), np.bool_)
    return {
        "as asked for": launched(sketched),
        "not ahead": launched(sketched, ahead=False),
        "asked for twice": launched(twice),
        "columns left out": launched(lambda product: sketched(product, mask)),
        "of another class": launched(sketched, accuracy="tf32"),
    }


def main() -> None:
    install()
    found = {"cores": cores(), "idle": idle_cores(), "free after a fault": failing_cores(), "sketches": sketches()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
