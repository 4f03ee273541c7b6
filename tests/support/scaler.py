"""What KEDA and the autoscaler that it drives make of docker/kubernetes/cell/scaling.yaml and of /metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

WAITING = "matmul_queue_waiting_jobs"
SCALING = Path(__file__).parents[2] / "docker" / "kubernetes" / "cell" / "scaling.yaml"


def figures(metrics: str, device_class: str) -> tuple[float, float]:
    """Of a page of /metrics: jobs of a class that wait and workers that run some, and how long the oldest has waited in
    seconds. These are the two queries of the file, of one API process."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            labels: Mapping[str, str] = sample.labels
            found[sample.name, ",".join(f"{key}={labels[key]}" for key in sorted(labels))] = sample.value
    busy = found.get(("matmul_workers", f"device_class={device_class},state=busy"), 0.0)
    ours = re.compile(f"queue=({device_class}|bench-.*)").fullmatch
    waiting = [value for (name, labels), value in found.items() if name == WAITING and ours(labels)]
    oldest_s = found["matmul_queue_oldest_seconds", f"queue={device_class}"]
    return sum(waiting) + busy, oldest_s * (1 - found["matmul_paused", ""])


class Scaler:
    """With a cooldown of its own, for a test has no five minutes."""

    def __init__(self, *, max_replicas: int, cooldown_s: float) -> None:
        self._spec: dict[str, Any] = yaml.safe_load(SCALING.read_text())["spec"]
        self._max_replicas, self._cooldown_s = max_replicas, cooldown_s
        self._active_at = -math.inf

    def wanted(self, values: tuple[float, float], current: int, now_s: float) -> int:
        """How many replicas there should be."""
        triggers = [(each["metricType"], each["metadata"]) for each in self._spec["triggers"]]
        if any(value > float(rule["activationThreshold"]) for value, (_, rule) in zip(values, triggers, strict=True)):
            self._active_at = now_s
        elif now_s - self._active_at > self._cooldown_s:
            return int(self._spec["minReplicaCount"])
        asked = [
            value / float(rule["threshold"]) * (1 if kind == "AverageValue" else current)
            for value, (kind, rule) in zip(values, triggers, strict=True)
        ]
        lowest = min(1, current)  # the autoscaler itself never goes to zero
        return min(self._max_replicas, max(lowest, math.ceil(max(asked))))
