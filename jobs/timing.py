"""The time of each step of a product, in its job's record."""

from __future__ import annotations

from pydantic import Field

from jobs.base import Strict


class Timing(Strict):
    """The time of each step, in milliseconds. On a CPU nothing is copied, so both copies are 0."""

    queue_ms: float = Field(description="From (re)queueing to a worker's claim.", examples=[1.9])
    h2d_ms: float = Field(
        description="Operands to the device, by device events; 0 for operands already there.", examples=[0.4]
    )
    kernel_ms: float = Field(
        description="The product alone, with what is added and its activation where it has them: on a GPU between "
        "device events, with everything of it queued before the first, so the time of launching it is not in it. The "
        "operands may be in the device's cache.",
        examples=[0.06],
    )
    d2h_ms: float = Field(description="Product from the device, by device events.", examples=[0.2])
    total_ms: float = Field(description="From the job's creation to its end.", examples=[4.4])
