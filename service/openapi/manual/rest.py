"""Kernels, devices, probes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field

from jobs import errors
from jobs.base import Strict
from kernels.model.buckets import MEANINGS
from service.catalogue import DeviceList, KernelDetail, KernelList
from service.openapi.manual.parts import Piece, json_answer, problems

KernelName = Annotated[str, Path(description="Name of the kernel.", examples=["cpu_blas"])]


class Alive(Strict):
    """A probe's answer."""

    status: str = Field(description="`ok`.", examples=["ok"])


class Ready(Alive):
    """The readiness probe's answer."""

    workers: int = Field(description="Live workers that take jobs.", examples=[1])
    warnings: tuple[str, ...] | None = Field(
        None,
        description="Workers that take no jobs, and why; and those with other settings. Left out where all is well.",
    )


def _text(description: str, media_type: str = "text/plain") -> Piece:
    return {"description": description, "content": {media_type: {"schema": {"type": "string"}}}}


KERNELS: Piece = {
    "tags": ["kernels"],
    "operation_id": "list_kernels",
    "summary": "List the kernels",
    "description": "In ladder order: each rung differs from the one before by one idea.",
    "responses": {200: json_answer(KernelList, "The catalogue."), **problems(errors.InvalidRequest)},
}
KERNEL: Piece = {
    "tags": ["kernels"],
    "operation_id": "get_kernel",
    "summary": "Read a kernel's entry",
    "description": "What it is, what it accepts, which live workers run it, and what each config needs of a device.\n\n"
    "Defaults are declared by the product's shape: "
    + "; ".join(f"`{name}`: {meaning}" for name, meaning in MEANINGS.items())
    + ".",
    "responses": {200: json_answer(KernelDetail, "The entry."), **problems(errors.NotFound, errors.InvalidRequest)},
}
SOURCE: Piece = {
    "tags": ["kernels"],
    "operation_id": "get_kernel_source",
    "summary": "Read a kernel's CUDA source",
    "description": "As it is compiled, except that tile parameters are macros.",
    "responses": {200: _text("CUDA C++."), **problems(errors.NotFound, errors.InvalidRequest, reads_store=False)},
}
ASSEMBLY: Piece = {
    "tags": ["kernels"],
    "operation_id": "get_kernel_assembly",
    "summary": "Read a kernel's compiled code",
    "description": "As recorded for sm_90, at the config that large products get.",
    "responses": {200: _text("SASS or PTX."), **problems(errors.NotFound, errors.InvalidRequest, reads_store=False)},
}
DEVICES: Piece = {
    "tags": ["devices"],
    "operation_id": "list_devices",
    "summary": "List the live workers and their devices",
    "description": "Each worker with its device's ceilings, its state and the kernels that it serves. Workers that "
    "are out of service are listed with the reason.",
    "responses": {200: json_answer(DeviceList, "The workers."), **problems(errors.InvalidRequest)},
}
LIVEZ: Piece = {
    "tags": ["probes"],
    "operation_id": "livez",
    "summary": "Is this process alive?",
    "description": "Answers without asking Redis or a worker.",
    "responses": {200: json_answer(Alive, "Yes."), **problems(needs_key=False, reads_store=False)},
}
READYZ: Piece = {
    "tags": ["probes"],
    "operation_id": "readyz",
    "summary": "Can this service multiply?",
    "description": "Yes if the job store answers and a live worker has computed a correct readiness product.",
    "responses": {200: json_answer(Ready, "Yes."), **problems(errors.NoWorkers, needs_key=False)},
}
METRICS: Piece = {
    "tags": ["probes"],
    "operation_id": "metrics",
    "summary": "Metrics for Prometheus",
    "description": "Requests and their latency, jobs by state, queues, workers, bytes kept.",
    "responses": {200: _text("Prometheus' text format."), **problems()},
}
