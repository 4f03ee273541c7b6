"""Cases that a process of its own plays: it reads them as JSON lines, and prints what came of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.played.own_process import printed_by


def outcomes_of(module: str, cases: Mapping[str, Any], arguments: Iterable[str] = ()) -> dict[str, Any]:
    """By the name of the case."""
    lines = "".join(f"{json.dumps(case)}\n" for case in cases.values())
    printed = printed_by(module, *arguments, given=lines)
    return dict(zip(cases, map(json.loads, printed.splitlines()), strict=True))
