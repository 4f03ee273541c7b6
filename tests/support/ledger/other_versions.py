"""Jobs as another version of the service would have recorded them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import redis

Change = Callable[[dict[str, Any]], None]


class Rows:
    """The rows of a ledger in Redis, to be changed by hand."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client = client
        self.prefix = prefix

    def key(self, job_id: str) -> str:
        return f"{self.prefix}job:{job_id}"

    def change(self, job_id: str, part: str, change: Change) -> None:
        """Of a part that is JSON."""
        self._change(self.key(job_id), part, change)

    def change_findings(self, job_id: str, change: Change, *, kind: str = "record") -> None:
        """Of all that a benchmark found, of a kind."""
        key = f"{self.key(job_id)}:findings"
        names: Any = self.client.hkeys(key)
        for name in names:
            if name.decode().startswith(f"{kind}:"):
                self._change(key, name.decode(), change)

    def _change(self, key: str, part: str, change: Change) -> None:
        text: Any = self.client.hget(key, part)
        value = json.loads(text)
        change(value)
        self.client.hset(key, part, json.dumps(value))

    def set(self, job_id: str, part: str, text: str) -> None:
        self.client.hset(self.key(job_id), part, text)

    def get(self, job_id: str, part: str) -> str | None:
        found: Any = self.client.hget(self.key(job_id), part)
        return None if found is None else found.decode()


def added_field(request: dict[str, Any]) -> None:
    request["priority"] = 1
    request["a"]["layout"] = {"order": "F"}


def unknown_kernel(request: dict[str, Any]) -> None:
    request["kernel"] = "gone_kernel"


def unknown_names(request: dict[str, Any]) -> None:
    request |= {"accuracy": "fp4", "verify": "twice"}
    request["a"]["random"]["distribution"] = "cauchy"


def unknown_type(request: dict[str, Any]) -> None:
    request["b"]["dtype"] = "float6"


def removed_field(request: dict[str, Any]) -> None:
    del request["b"]


CHANGES = (added_field, unknown_kernel, unknown_names, unknown_type, removed_field)
