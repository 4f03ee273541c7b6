"""The machine that a record was made on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def where(record: Mapping[str, Any]) -> str:
    at = record["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in at["versions"].items() if number)
    return f"Recorded {at['recorded_at']} on {at['cpu']}, {at['cores']} cores, Python {at['python']} ({versions})."
