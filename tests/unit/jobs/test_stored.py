"""The agreements between two versions: a change that breaks one of these tests breaks a rolling upgrade."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs import queue, stored
from jobs.base import Strict
from jobs.benchmarks.records import AttemptInfo, BenchmarkSummary, CaseRecord, Ceiling, Samples
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.fleet.workers import Ceilings, DeviceInfo, Telemetry, WorkerInfo
from jobs.models import BenchmarkOutcome, JobError, MatmulRequest, Outcome, Progress

OPERAND = {"source": "random", "random": {"shape": [2, 2]}, "dtype": "float32", "shape": [2, 2]}
WHOLE_OPERAND = {
    **OPERAND,
    "random": {"shape": [2, 2], "dtype": None, "seed": 0, "distribution": "normal"},
    "matrix": None,
    "job": None,
}
MATMUL = {"a": OPERAND, "b": OPERAND, "accuracy": "fp32"}
WHOLE_MATMUL = {
    **{"a": WHOLE_OPERAND, "b": WHOLE_OPERAND, "accuracy": "fp32", "kernel": "auto", "config": {}},
    **{"transpose_a": False, "transpose_b": False, "verify": "freivalds"},
}
BENCHMARK: dict[str, Any] = {"shapes": [16, {"m": 1, "n": 2, "k": 3}, {"start": 1, "stop": 2, "count": 2}]}
WHOLE_BENCHMARK = {
    "shapes": [16, {"m": 1, "n": 2, "k": 3}, {"start": 1, "stop": 2, "step": None, "count": 2, "scale": "linear"}],
    **{"schema_version": 1, "kind": "sweep", "preset": None, "title": None, "tags": [], "device": "any"},
    **{"kernels": "ladder", "configs": "default", "dtypes": ["float32"], "verify": "freivalds", "baseline": "auto"},
    "data": {"distribution": "normal", "seed": 0, "scale": 1.0, "layout": "padded"},
    "timing": {
        **{"cache": "cold", "rounds": 2, "warmup_ms": 250.0, "min_samples": 10, "max_samples": 500},
        **{"min_time_s": 0.3, "precision": 0.005, "timeout_s": 15.0},
    },
    "transfers": {"enabled": False, "pageable": False},
    "energy": {"enabled": False, "window_s": 2.0},
    "fresh_process": False,
    "tune": {"budget": 200, "strategy": "auto"},
}

# Fields without a default are as old as their model: one that comes later has a default, for rows that lack it.
REQUIRED: dict[type[Strict], str] = {
    MatmulRequest: "a b accuracy",
    BenchmarkSpec: "",
    Outcome: "kernel config why device product measured gflops verification",
    BenchmarkOutcome: "device summary",
    BenchmarkSummary: "cases measurements",
    JobError: "type detail",
    Progress: "done total",
    CaseRecord: "case round attempt kernel device_class dtype m n k status cache flops bytes_min",
    Ceiling: "name unit value",
    Samples: "",
    AttemptInfo: "attempt worker started_at found device",
    WorkerInfo: "id state device queue kernels started_at seen_at lease_s",
    DeviceInfo: "name device_class",
    Ceilings: "",
    Telemetry: "",
}


def holds(whole: Any, part: Any) -> bool:
    """Whether everything of the one is in the other."""
    if isinstance(part, dict):
        return all(name in whole and holds(whole[name], value) for name, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return bool(whole == part)


@pytest.mark.parametrize(
    ("model", "asked", "whole"),
    [(MatmulRequest, MATMUL, WHOLE_MATMUL), (BenchmarkSpec, BENCHMARK, WHOLE_BENCHMARK)],
)
def test_defaults_never_change(model: type[Strict], asked: dict[str, Any], whole: dict[str, Any]) -> None:
    """Requests are stored without them, so the version that reads one must have those of the version that wrote it."""
    read = stored.read(model, json.dumps(asked))
    assert holds(read.model_dump(mode="json"), whole)
    assert json.loads(read.model_dump_json(exclude_defaults=True)) == asked


@pytest.mark.parametrize("model", REQUIRED)
def test_what_is_added_to_a_stored_model_has_a_default(model: type[Strict]) -> None:
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    assert required == REQUIRED[model].split()


def test_messages_are_filled_in_by_either_version() -> None:
    """A job that waits for another keeps the form of its message; the script of whoever ends that one fills it in."""
    names = "job attempt name hard soft name job name queue name number"
    assert tuple(names.split()) == queue.PLACES
    assert queue.RUN_TASK == "matmul.run"


@pytest.mark.parametrize("model", REQUIRED)
def test_every_stored_model_can_be_read_tolerantly(model: type[Strict]) -> None:
    tolerant = stored.tolerant(model)
    assert issubclass(tolerant, model) and tolerant.model_fields.keys() == model.model_fields.keys()


def test_what_is_stored_is_read_as_strictly_as_it_can_be() -> None:
    assert type(stored.read(MatmulRequest, json.dumps(MATMUL))) is MatmulRequest
    odd = MATMUL | {"kernel": "gone_kernel", "accuracy": "fp4", "gamma": {"seed": 1}}
    read = stored.read(MatmulRequest, json.dumps(odd))
    assert (read.kernel, read.accuracy, read.a.shape) == ("gone_kernel", "fp4", (2, 2))
    axis = {"kernel": "gone_kernel", "configs": [{"stages": 9}]}
    spec = BENCHMARK | {"kernels": ["gone", axis], "data": {"layout": "swizzled", "bits": 4}, "dtypes": ["float6"]}
    read_spec = stored.read(BenchmarkSpec, json.dumps(spec))
    assert json.loads(read_spec.model_dump_json(exclude_defaults=True)) == spec | {"data": {"layout": "swizzled"}}
